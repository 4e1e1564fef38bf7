from __future__ import annotations

import warnings

import pytest

import unspoken
from unspoken import FastText

SMALL = {"dim": 8, "columns": 16, "progress": False}
HAM = ["привет мама", "ужин дома", "до завтра", "поезд опоздал"]
SPAM = ["выиграй приз", "деньги бесплатно", "твой приз ждёт", "Срочно деньги"]
RUSSIAN, LABELS = (HAM + SPAM) * 10, (["ham"] * 4 + ["spam"] * 4) * 10


def test_other_alphabets_are_learnt_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = FastText(**SMALL).fit(RUSSIAN, LABELS)
        assert model.predict(["ПРИЗ бесплатно", "мама дома"]).tolist() == ["spam", "ham"]
    assert (model.coverage_, model.cut_) == (1.0, 0)


def test_unknown_words_are_told(model):
    for ask in (model.predict, model.scores, model.decision_function, lambda texts: model.score(texts, LABELS)):
        with pytest.warns(unspoken.TextWarning, match=r"\(100.0 %\) are not in the model's vocabulary") as caught:
            ask(RUSSIAN)
        assert [each.filename for each in caught] == [__file__]
    with pytest.warns(unspoken.TextWarning, match="not in the model's vocabulary"):
        FastText(min_count=1000, **SMALL).fit(RUSSIAN, LABELS)


def test_texts_that_are_cut_are_counted(texts, labels):
    long = ["see you at home my dear", *texts]
    with pytest.warns(unspoken.TextWarning, match="1 of 81 texts .* more than 4 tokens.*--max-tokens") as caught:
        model = FastText(max_tokens=4, **SMALL).fit(long, ["ham", *labels])
    assert [each.filename for each in caught] == [__file__]
    assert model.cut_ == 1
    with pytest.warns(unspoken.TextWarning, match="1 of 1 texts"):
        model.predict(long[:1])


def test_a_client_tells_too(service, model, state):
    with unspoken.ClassifyClient(service.url, model=model, state_dir=state, progress=False) as client:
        with pytest.warns(unspoken.TextWarning, match="not in the model's vocabulary") as caught:
            client.classify(["привет мир"])
        assert [each.filename for each in caught] == [__file__]
        with pytest.warns(unspoken.TextWarning, match="more than 128 tokens"):
            client.classify_to_share(["free cash " * 100], bits=4)


def test_published_texts_are_loaded(tmp_path):
    for label in ("ham", "spam"):
        (tmp_path / "enron1" / label).mkdir(parents=True)
        (tmp_path / "enron1" / label / "0001.txt").write_bytes(b"Subject: caf\xe9\r\nnext " + label.encode())
    assert unspoken.load_texts(tmp_path, "enron-spam") == (["café\nnext ham", "café\nnext spam"], ["ham", "spam"])
    drugs = tmp_path / "drugsComTrain_raw.tsv"
    drugs.write_text('\treview\trating\n1\t"""I can&#039;t"""\t5.0\n2\t"""fine"""\t6.0\n')
    assert unspoken.load_texts(drugs, "drug-reviews") == (["I can't", "fine"], ["negative", "positive"])
    table = tmp_path / "reviews.csv"
    table.write_text("text,label\ngood,1\n")
    assert unspoken.load_texts(table, "csv", text_column="text", label_column="label") == (["good"], ["1"])


def test_marked_labels_and_other_delimiters_are_read(tmp_path):
    path = tmp_path / "texts"
    path.write_text("__label__a __label__b win now\n\n__label__a see you\n")
    assert unspoken.load_texts(path, "fasttext") == (["win now", "win now", "see you"], ["a", "b", "a"])
    path.write_text("label;text\nham;see, you\n")
    columns = {"text_column": "text", "label_column": "label"}
    assert unspoken.load_texts(path, "csv", delimiter=";", **columns) == (["see, you"], ["ham"])
    with pytest.raises(unspoken.ArgumentError, match="delimiter='ab'"):
        unspoken.load_texts(path, "csv", delimiter="ab", **columns)
    path.write_text("label;text;label\nham;see;you\n")
    with pytest.raises(unspoken.TrainingError, match="columns 1 and 3 are both called"):
        unspoken.load_texts(path, "csv", delimiter=";", **columns)


def test_texts_that_cannot_be_loaded_are_named(tmp_path):
    drugs = tmp_path / "drugs.tsv"
    drugs.write_text("review\trating\nfine\t6\nfine\t12\n")
    with pytest.raises(unspoken.TrainingError, match=r'drugs\.tsv, line 3: found the rating "12"'):
        unspoken.load_texts(drugs, "drug-reviews")
    with pytest.raises(unspoken.TrainingError, match="found no folder ham or spam"):
        unspoken.load_texts(tmp_path, "enron-spam")
    for options in ({"kind": "mbox"}, {"kind": "csv", "text_column": "a"}, {"label_column": "rating"}):
        with pytest.raises(ValueError, match="read texts: found kind="):
            unspoken.load_texts(drugs, **options)
