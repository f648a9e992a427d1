from .records import Agreement as Agreement, Consensus as Consensus
from .records import agreement as agreement, consensus as consensus
from .records import cohen_kappa as cohen_kappa, fleiss_kappa as fleiss_kappa
from .records import Asking as Asking, Event as Event, Verdict as Verdict
from .records import Item as Item, Kind as Kind
from .records import LabelClass as LabelClass, Leased as Leased
from .records import ListedFile as ListedFile, RoundItem as RoundItem
from .records import StoredEvent as StoredEvent, StoredRound as StoredRound
from .records import new_uuid as new_uuid
from .store import Store as Store, candidates_digest as candidates_digest
