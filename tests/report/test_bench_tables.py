"""Tables as LaTeX and data, letter by letter."""

from tests.report.benches import Bench, experiment

from fewlabels.report import write_bench_report
from fewlabels.report.page import Column, Entry, Table

TINY = Table(
    [
        "Strategy",
        Column("ours", "30 labels"),
        Column("paper", "30 labels", is_quiet=True),
        "p",
    ],
    [
        ["a_b", Entry("94.63", is_best=True, detail="± 0.07"), "90.00 ± 1.00", "–"],
        ["c|d", "\N{MINUS SIGN}1.5", "–", Entry("< 0.001", is_best=True)],
    ],
    name="tiny",
    caption="Accuracy (%), 2 seeds.",
    records=[
        {"strategy": "a_b", "mean": 0.1 + 0.2, "deviation": float("nan"), "seeds": 2},
        {"strategy": "c,d", "mean": None, "deviation": 1e-12, "seeds": 0},
    ],
    breaks=[1],
)


def test_latex():
    assert (
        TINY.as_latex()
        == r"""% needs \usepackage{booktabs}
\begin{table}[t]
\caption{Accuracy (\%), 2 seeds.}
\label{tab:tiny}
\centering
\begin{tabular}{lccc}
\toprule
\multicolumn{1}{c}{} & \multicolumn{2}{c}{30 labels} & \multicolumn{1}{c}{} \\
\cmidrule(lr){2-3}
Strategy & ours & paper & p \\
\midrule
a\_b & $\mathbf{94.63 \pm 0.07}$ & $90.00 \pm 1.00$ & -- \\
\midrule
c$|$d & $-$1.5 & -- & \textbf{$<$ 0.001} \\
\bottomrule
\end{tabular}
\end{table}
"""
    )


def test_data():
    assert TINY.as_csv() == (
        'strategy,mean,deviation,seeds\na_b,0.3,,2\n"c,d",,1e-12,0\n'
    )


_CAPTION = (
    r"\caption{Average accuracy (\%) $\pm$ sample standard deviation. Data toys, "
    "trainer fixmatch (steps = 400), 2 seeds. Bold: the highest mean, which need not "
    "be significant. Not the paper's scale.}"
)


def test_the_accuracies_of_a_tiny_benchmark(tmp_path):
    bench = Bench(tmp_path, experiment(seeds=(0, 1)))
    for seed in (0, 1):
        bench.run("random", seed, [0.5, 0.6, 0.7 + seed / 50])
        bench.run("npc", seed, [0.5, 0.6, 0.8 - seed / 25])
    tables = write_bench_report(bench.folder, "toys").parent / "tables"
    latex = (tables / "accuracy.tex").read_text("utf-8")
    assert (
        latex.replace(_CAPTION, "CAPTION").replace(r"$\mathbf{78.00 \pm 2.83}$", "BEST")
        == r"""% needs \usepackage{booktabs}
\begin{table}[t]
CAPTION
\label{tab:accuracy}
\centering
\begin{tabular}{lcccc}
\toprule
\multicolumn{1}{c}{} & \multicolumn{3}{c}{Labels} & \multicolumn{1}{c}{} \\
\cmidrule(lr){2-4}
Strategy & 4 & 8 & 12 & AUBC \\
\midrule
random & $50.00 \pm 0.00$ & $60.00 \pm 0.00$ & $71.00 \pm 1.41$ & $60.25 \pm 0.35$ \\
npc & $50.00 \pm 0.00$ & $60.00 \pm 0.00$ & BEST & $62.00 \pm 0.71$ \\
\bottomrule
\end{tabular}
\end{table}
"""
    )
    lines = (tables / "accuracy.csv").read_text("utf-8").splitlines()
    assert lines[0] == (
        "condition,strategy,labels,seeds,mean,deviation,low,high,published_mean,"
        "published_deviation"
    )
    assert lines[3] == ",random,12,2,0.71,0.0141421356,0.582937953,0.837062047,,"
