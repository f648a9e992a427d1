from .acquisition import (
    Seeds as Seeds,
    query_size as query_size,
    round_folder as round_folder,
    rounds as rounds,
    without as without,
)
from .simulation import (
    check_numbers as check_numbers,
    check_plan as check_plan,
    hidden as hidden,
    run as run,
    starting_answers as starting_answers,
)
from .diagnosis import Conditioning as Conditioning
from .diagnosis import diagnose as diagnose
from .execution import check_choices as check_choices
from .execution import environment as environment
from .execution import execute as execute
from .run_folder import RunFolder as RunFolder
from .lines import RoundLine as RoundLine
from .lines import has_ended as has_ended
from .settings import Choice as Choice
from .settings import RunSettings as RunSettings
from .settings import SeedOptions as SeedOptions
from .settings import settled as settled
