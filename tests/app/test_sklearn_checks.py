"""scikit-learn's own checks of an estimator, all of them; those that cannot apply are listed, each with the reason.

The checks bring rows of features. ``Rows`` draws each row as an image of stripes and changes nothing else, so that what
is checked is ``ContinualClassifier``.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.utils.estimator_checks import estimator_checks_generator

from lockgate import ContinualClassifier
from lockgate.errors import LockgateError

PAGE = Path(__file__).parents[2] / "docs" / "sklearn.md"

FIT_TWICE = "calls `fit` twice on one object, which would forget a task"
NO_FEATURES = "wants `n_features_in_`: images of any size are resized, so there is no number of features to hold to"
NOT_APPLICABLE = {
    "check_classifiers_train": FIT_TWICE,
    "check_fit_idempotent": FIT_TWICE,
    "check_pipeline_consistency": FIT_TWICE,
    "check_supervised_y_2d": FIT_TWICE + "; labels (N, 1) are refused",
    "check_fit_score_takes_y": "calls `partial_fit` with classes that `fit` has learnt; a class is learnt once",
    "check_estimators_partial_fit_n_features": "passes `classes` to `partial_fit`: here each call brings its own",
    "check_classifiers_one_label": "a first task with one class leaves nothing to tell apart, and is refused",
    "check_n_features_in": NO_FEATURES,
    "check_n_features_in_after_fitting": NO_FEATURES,
    "check_estimators_empty_data_messages": "wants a message about features; images without pixels are refused in ours",
    "check_estimators_nan_inf": "its labels are floats, which are refused; NaN in images is too",
    "check_dtype_object": "images are numbers; arrays of Python objects are refused",
}
SKIPPED_BY_SKLEARN = {"check_array_api_input", "check_classifier_data_not_an_array"}
"""Where its optional needs (SCIPY_ARRAY_API, pandas) are not there; the second has checked lists before it skips."""


class Rows(ContinualClassifier):
    """Takes rows (N, F) as images (N, 8, F, 1)."""

    def learn(self, images: Any, labels: Any = None, name: str = "") -> Self:
        return super().learn(stripes(images), labels, name)

    def predict_proba(self, images: Any, task: str | int | None = None, exact: bool = False) -> Any:
        return super().predict_proba(stripes(images), task, exact)

    def score(self, X: Any, y: Any = None, task: str | int | None = None) -> float:
        return super().score(stripes(X), y, task)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = True
        return tags


def stripes(rows: Any) -> Any:
    x = rows if issparse(rows) else np.asarray(rows)
    if issparse(x) or x.ndim != 2:
        return rows
    if x.dtype.kind in "uif":  # to [0, 1], each value by itself; NaN and infinity stay what they are
        x = np.where(np.isfinite(x), 1 / (1 + np.exp(-x.astype(np.float64) / 3)), x)
    return np.repeat(x[:, None, :, None], 8, axis=1)


ROWS = Rows(epochs=10, width=8, size=8, batch_size=16, keep=20, probes=0, verbose=False)


def named(check: partial[Any]) -> str:
    inner = check.func
    return named(inner) if isinstance(inner, partial) else inner.__name__


CHECKS = [(named(check), check) for _, check in estimator_checks_generator(ROWS)]


@pytest.mark.parametrize(("name", "check"), [pytest.param(n, c, id=f"{i}-{n}") for i, (n, c) in enumerate(CHECKS)])
@pytest.mark.filterwarnings("ignore")
def test_it_is_an_estimator(name: str, check: partial[Any]) -> None:
    if name in NOT_APPLICABLE:
        with pytest.raises((LockgateError, AssertionError, TypeError)):  # a reason that no longer holds goes
            check(ROWS)
        return
    try:
        check(ROWS)
    except pytest.skip.Exception:
        raise
    except Exception as error:
        if type(error).__name__ != "SkipTest" or name not in SKIPPED_BY_SKLEARN:
            raise


def test_the_page_lists_the_checks_that_do_not_apply_with_their_reasons() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `check_")]
    assert {name.strip("`"): reason for name, reason in rows} == NOT_APPLICABLE
    assert set(NOT_APPLICABLE) <= {name for name, _ in CHECKS}
