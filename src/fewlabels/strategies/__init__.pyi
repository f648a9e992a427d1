from .albl import ActiveLearningByLearning as ActiveLearningByLearning
from .badge import Badge as Badge
from .bait import Bait as Bait
from .batchbald import BatchBald as BatchBald
from .cluster_margin import ClusterMargin as ClusterMargin
from .coreset import Coreset as Coreset
from .dal import DiscriminativeActiveLearning as DiscriminativeActiveLearning
from .egl import ExpectedGradientLength as ExpectedGradientLength
from .ev_gp import ExpectedVariance as ExpectedVariance
from .maxdet import MaxDet as MaxDet
from .mlmoc import MostLikelyOutputChange as MostLikelyOutputChange
from .npc import NeuralPreconditioning as NeuralPreconditioning
from .outward import Outward as Outward
from .outward import SigmaOptimal as SigmaOptimal
from .outward import VarianceReduction as VarianceReduction
from .outward import VOptimal as VOptimal
from .probcover import ProbCover as ProbCover
from .random import Random as Random
from .rdss import RepresentativeDiverse as RepresentativeDiverse
from .registry import names as names, resolve as resolve
from .typiclust import Medoids as Medoids, TypiClust as TypiClust
from .uherding import UncertaintyHerding as UncertaintyHerding
from .uncertainty import Entropy as Entropy
from .uncertainty import LeastConfidence as LeastConfidence
from .uncertainty import Margin as Margin
