from .acquisition import (
    check_plan as check_plan,
    hidden as hidden,
    query_size as query_size,
    round_folder as round_folder,
    rounds as rounds,
    run as run,
    starting_answers as starting_answers,
    without as without,
)
from .diagnosis import Conditioning as Conditioning, diagnose as diagnose
from .runs import (
    RoundLine as RoundLine,
    RunFolder as RunFolder,
    check_choices as check_choices,
    environment as environment,
    execute as execute,
    has_ended as has_ended,
)
from .settings import (
    Choice as Choice,
    RunSettings as RunSettings,
    SeedOptions as SeedOptions,
    Seeds as Seeds,
    check_numbers as check_numbers,
    settled as settled,
)
