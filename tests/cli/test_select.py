import json

import numpy as np
from tests.shards import clustered, write_shards


def test_select_from_shards_in_the_shell(fewlabels, tmp_path):
    ids = write_shards(tmp_path / "shards", clustered(60)[0], 4)
    code, out, _ = fewlabels("select", "shards", "--strategy", "coreset", "--size", 5)
    assert code == 0
    assert len(set(out.split()) & set(ids)) == 5
    (tmp_path / "done.csv").write_text("id\n" + "\n".join(out.split()) + "\n")
    more = ("--labels", "done.csv", "--processes", 2, "--size", 55, "--json")
    code, again, _ = fewlabels("select", "shards", "--strategy", "random", *more)
    assert code == 0
    assert sorted(json.loads(again)["ids"] + out.split()) == ids
    code, _, err = fewlabels("select", "shards", "--address", "127.0.0.1:1")
    assert (code, "--engine ray" in err) == (2, True)
    code, _, err = fewlabels("select", "shards", "--engine", "ray", "--processes", 2)
    assert (code, "--processes 2 works only with" in err) == (2, True)
    np.savez(tmp_path / "a.npz", features=np.eye(3))
    code, _, err = fewlabels("select", "a.npz", "--processes", 2)
    assert (code, "is a file: leave --labels" in err) == (2, True)
    np.savez(tmp_path / "width_0.npz", features=np.zeros((4, 0)))
    code, _, err = fewlabels("select", "width_0.npz", "--size", 2)
    assert (code, "features has shape (4, 0)" in err) == (2, True)
