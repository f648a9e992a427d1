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
