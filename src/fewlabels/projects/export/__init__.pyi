from .card import Facts as Facts
from .model import LoadedModel as LoadedModel, load_model as load_model
from .model import save_model as save_model, write_onnx as write_onnx
from .tables import LabelRow as LabelRow, PredictionRows as PredictionRows
from .tables import check_replaceable_table as check_replaceable_table
from .tables import write_labels as write_labels
from .tables import write_predictions as write_predictions
