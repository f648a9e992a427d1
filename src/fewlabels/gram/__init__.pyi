from .diffusion import (
    Diffusion as Diffusion,
    Weights as Weights,
    diffusion_kernel as diffusion_kernel,
)
from .fisher import binary_factors as binary_factors, class_factors as class_factors
from .gradient_embedding import (
    GradientEmbeddingKernel as GradientEmbeddingKernel,
    gradient_embedding_kernel as gradient_embedding_kernel,
)
from .last_layer import (
    LastLayerKernel as LastLayerKernel,
    last_layer_kernel as last_layer_kernel,
)
from .linear import LinearKernel as LinearKernel, euclidean_kernel as euclidean_kernel
from .ntk import (
    TangentKernel as TangentKernel,
    exact_ntk_gram as exact_ntk_gram,
    ntk_kernel as ntk_kernel,
)
from .softmax import SoftmaxKernel as SoftmaxKernel, softmax_kernel as softmax_kernel
from .spectra import (
    Spectrum as Spectrum,
    eigenvalue_ceiling as eigenvalue_ceiling,
    lobpcg_smallest_eigenvalue as lobpcg_smallest_eigenvalue,
    numerical_rank as numerical_rank,
    smallest_eigenvalue as smallest_eigenvalue,
    spectrum as spectrum,
)
from .wide_head import (
    WideHeadKernel as WideHeadKernel,
    wide_head_kernel as wide_head_kernel,
)
