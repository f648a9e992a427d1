"""Names that something outside our Python uses, one per line with the reason."""
# ruff: noqa: B018, F821

__getattr__  # Python asks it for names of the package
__dir__
MaxDet  # imported by the path of a table
AdaMatch  # learners, imported by the paths of a table
FixMatchAbc
FixMatchCdmad
FixMatchCta
FreeMatch
MeanTeacher
SoftMatch
trust  # a command, found by its name
strange  # tests' jobs call these by their names
surroundings
_.forward  # torch calls it
_.inplace  # torch reads it
_.reset_parameters  # torch's name for drawing weights anew
_.model_config  # pydantic reads it
_._from_name  # pydantic calls it before validation
_._leaves_something_to_train_on  # and these after
_._can_name_files
_._first_seeds
_._has_items
_._has_a_label_per_item
_.strategy_source  # pydantic checks it
_._tells_runs_apart
_._check_size
_._as_given  # and this when it writes
_.schema_version  # written to files, for later versions to read
_.tempdir  # tempfile reads it
_.filters  # jinja2 looks filters up here
_.caption  # the report's templates read these
_.fact_groups
_.explanation
_.annotators
_.forecast
_.glossary
_.has_images
_.has_rounds
_.has_spectra
_.has_ties
_.has_values
_.image_size
_.is_code
_.is_measured
_.last_round
_.longest_name
_.is_long
_.num_covered
_.num_more
_.num_shared
_.uncovered
pytestmark  # pytest reads it
untouched_randomness  # a fixture, requested by name
_here  # a fixture that is always used
own_cache  # likewise
compiled_once
no_flushing
one_thread
packages_looked_through_once
no_numbers_of_the_source
no_search_for_garbage
pytest_collect_file  # pytest calls it
list_recipes  # typer calls it
prune  # likewise
demo  # imported when it is called
_.do_GET  # http.server calls these
_.do_HEAD
_.log_message
_.linkname  # tarfile writes it into the archive
Falls  # these are imported by path, in a process that measures memory
FullMatrix
FullMatrixByRows
NeedsAnOption
Sleeps
_.must
FirstOnes  # imported by path, as somebody's own strategy
Resuming  # the same, as somebody's own trainer
Failing  # and these, by workers of a benchmark
Quick
Unfit
KilledOnce
Dies
Fails
dying
leaving
sleeping
leave  # and these, in jobs
num_page_faults
priorities
warm_up
heed
_.isatty  # rich asks a stream whether it is a terminal
_.handle_starttag  # html.parser calls these
_.handle_startendtag
_.handle_endtag
_.handle_data
ignores_order  # strategies: a promise that the conformance suite holds them to
_.isolation_level  # sqlite3 reads it
_.impl  # sqlalchemy reads these and calls these
_.cache_ok
_.process_bind_param
_.process_result_value
_.is_active  # records of the store: for its callers
_.num_present
_.format_version  # written into config.json, for others to read
_.input_range
_.input_resize
_.annotator  # a column of labels.csv, read by its name
_.encoding  # torch finds weights under it
_.worst_coverage  # a field of the data of a report
_.__signature__  # of a name of a training: inspect reads it
pytest_collection_finish  # pytest calls it
small_figures  # a fixture of every test there
small_parts  # a fixture that tests name
empty_figures
efficientnet_lite0  # imported by the table of encoders
efficientnet_lite2
refuse_rows
from_onnx
from_folder
_.find_class  # pickle calls this
_.find_spec  # Python calls these to import
_.create_module
_.exec_module
_.intra_op_num_threads  # onnxruntime reads these
_.log_severity_level
forked_workers  # tests name this fixture
static  # FastAPI calls these
stand
health
setup
webhook
suggestions  # a job, which is started by its name
_.enable_progress_bars  # Ray Data reads it
_.no_wrap  # rich reads these
_.justify
_.is_here  # printed as JSON
headline  # of the page, in its template
dies_if  # jobs of tests, started by their names
Killed
calibration_error  # read by their names in MEASURES
brier_score
four_gpus  # tests name this fixture
meet  # a job of tests, started by its name
