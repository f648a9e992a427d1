"""Rows to refine: random ones, and the worked example with its outcomes.

The example's outcomes were found by three independent solvers (Newton, alternating
updates, an interior-point method), which agreed to 1e-7 or better.
"""

import torch

from fewlabels.rng import stream

EXAMPLE = torch.tensor(
    [
        [0.70, 0.20, 0.10],
        [0.60, 0.30, 0.10],
        [0.80, 0.15, 0.05],
        [0.50, 0.25, 0.25],
        [0.40, 0.50, 0.10],
        [0.65, 0.05, 0.30],
    ],
    dtype=torch.float64,
)
TWO_EACH = torch.tensor([2.0, 2.0, 2.0], dtype=torch.float64)

UNWEIGHTED = (
    {"capacity": None, "weighting": "none"},
    [0.83240936, -0.15580549, -0.67660386],
    [
        [0.41432045, 0.31801279, 0.26766676],
        [0.32290060, 0.43372566, 0.24337374],
        [0.55980131, 0.28197554, 0.15822315],
        [0.21718591, 0.29172786, 0.49108623],
        [0.18219550, 0.61182036, 0.20598414],
        [0.30359623, 0.06273780, 0.63366597],
    ],
)
UNMASKED = (
    {"capacity": None},
    [1.00586016, -0.21003350, -0.79582666],
    [
        [0.42315995, 0.32050996, 0.25633009],
        [0.30028486, 0.44737219, 0.25234295],
        [0.63148022, 0.24945393, 0.11906585],
        [0.16597994, 0.29380304, 0.54021702],
        [0.15863133, 0.62436661, 0.21700206],
        [0.32046371, 0.06449426, 0.61504204],
    ],
)
AS_THE_CODE = (
    {"masking": "code"},
    None,
    [
        [0.38879058, 0.28245483, 0.32875459],
        [0.30635488, 0.39003059, 0.30361453],
        [0.99999656, 1.72e-6, 1.72e-6],
        [7.5e-7, 0.32751466, 0.67248459],
        [1.25e-6, 0.99999750, 1.25e-6],
        [0.30485597, 7.1e-7, 0.69514332],
    ],
)
AS_THE_PAPER = (
    {"masking": "paper"},
    [1.06538, -0.102705, -0.962675],
    [
        [0.407291, 0.296889, 0.295820],
        [0.289270, 0.412852, 0.297878],
        [1.0, 0.0, 0.0],
        [0.0, 0.290259, 0.709741],
        [0.0, 1.0, 0.0],
        [0.303439, 0.0, 0.696561],
    ],
)


def random_rows(num_rows, num_classes, seed, *, sharpness=1.5, bias=0.5):
    """Softmax of normal logits, with classes that are favored; float64."""
    generator = stream(seed, "rows")
    logits = torch.randn(num_rows, num_classes, generator=generator)
    logits += bias * torch.randn(num_classes, generator=generator)
    return torch.softmax(sharpness * logits.double(), dim=1)


def random_target(num_rows, num_classes, seed):
    """Uneven numbers that add up to the number of rows; float64."""
    shares = 0.3 + torch.rand(num_classes, generator=stream(seed, "target")).double()
    return num_rows * shares / shares.sum()
