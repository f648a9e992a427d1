from .diffusion import (
    Diffusion as Diffusion,
    diffusion_kernel as diffusion_kernel,
)
from .kernels import (
    GradientEmbeddingKernel as GradientEmbeddingKernel,
    LastLayerKernel as LastLayerKernel,
    LinearKernel as LinearKernel,
    SoftmaxKernel as SoftmaxKernel,
    Weights as Weights,
    WideHeadKernel as WideHeadKernel,
    binary_factors as binary_factors,
    class_factors as class_factors,
    euclidean_kernel as euclidean_kernel,
    gradient_embedding_kernel as gradient_embedding_kernel,
    last_layer_kernel as last_layer_kernel,
    softmax_kernel as softmax_kernel,
    wide_head_kernel as wide_head_kernel,
)
from .ntk import (
    TangentKernel as TangentKernel,
    exact_ntk_gram as exact_ntk_gram,
    ntk_kernel as ntk_kernel,
)
from .regression import (
    Modes as Modes,
    kernel_modes as kernel_modes,
    labeled_set_error as labeled_set_error,
    random_set_error as random_set_error,
)
from .spectra import (
    Spectrum as Spectrum,
    eigenvalue_ceiling as eigenvalue_ceiling,
    lobpcg_smallest_eigenvalue as lobpcg_smallest_eigenvalue,
    numerical_rank as numerical_rank,
    smallest_eigenvalue as smallest_eigenvalue,
    spectrum as spectrum,
)
