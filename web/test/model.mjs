// The form of a model's inputs: ranges, rows that a person pastes, and the numbers of pictures. `make web` builds it; then
// `node --test web/test/`.

import assert from "node:assert/strict";
import { test } from "node:test";

import { UnansweredError, UnspokenError } from "../dist/errors.js";
import { moved, nameOf, parsedRow, problemOf, rangeOf, sizeOf } from "../dist/page/numbers.js";
import { guessedLevels, numbersOfPixels, sizeOfPicture } from "../dist/page/pixels.js";

/** An input whose numbers have the same range. */
function input(shape, { low = -1, high = 1, ...rest } = {}) {
  const size = shape.reduce((a, b) => a * b, 1);
  const all = (number) => Array(rest.tableRows === undefined ? size : 0).fill(number);
  return { name: "x", shape, elements: [], low: all(low), high: all(high), tableRows: undefined, ...rest };
}

const named = input([3], { elements: ["sepal length", "age, in years", "c"] });

test("numbers have names for people", () => {
  assert.deepEqual(
    [0, 1].map((place) => nameOf(named, place)),
    ["sepal length", "age, in years"],
  );
  assert.equal(nameOf(input([4]), 3), "x [3]");
  assert.equal(nameOf(input([2, 3]), 5), "x [1, 2]");
  for (const shape of [[], [1], [1, 1]]) {
    assert.deepEqual([sizeOf(input(shape)), nameOf(input(shape), 0)], [1, "x"]);
  }
});

test("the ends of a range for people are in it", () => {
  for (const [low, high, shown] of [
    [-1, 1, "-1 to 1"],
    [0.12345, 4.56789, "0.13 to 4.56"],
    [-31.875, 286.875, "-31 to 286"],
    [1e-7, 2.00049e-5, "1e-7 to 0.00002"],
    [99.9996, 100.0004, "99.9996 to 100.0004"],
  ]) {
    const one = input([1], { low, high });
    assert.equal(rangeOf(one, 0), shown);
    for (const end of shown.split(" to ").map(Number)) {
      assert.equal(problemOf(one, 0, end, false), undefined, `${end} of ${shown}`);
    }
  }
});

test("a number outside its range is a problem, unless it may be moved", () => {
  const one = input([2], { low: 0, high: 4 });
  assert.equal(problemOf(one, 1, 4, false), undefined);
  assert.equal(problemOf(one, 1, 4.01, false), "needed 0 to 4");
  assert.equal(problemOf(one, 1, 4.01, true), undefined);
  assert.deepEqual([moved(one, 1, 9), moved(one, 1, -9), moved(one, 1, 3)], [4, 0, 3]);
  for (const value of [Number.NaN, Infinity]) {
    assert.equal(problemOf(one, 0, value, true), "needed 0 to 4");
  }
  // Indices are never moved.
  const index = input([2], { tableRows: 12 });
  for (const value of [-1, 0.5, 12, Number.NaN]) {
    assert.equal(problemOf(index, 0, value, true), "needed a whole number from 0 to 11");
  }
  assert.equal(problemOf(index, 0, 11, false), undefined);
});

test("rows are read from JSON and CSV, by the names of elements if there are any", () => {
  for (const text of [
    "[1, [2, -3e-1]]",
    "1,2,-0.3",
    " 1;2 ; -0.3\n",
    "1 2\n-0.3",
    "1\t2\t-0.3",
    'c,sepal length,"age, in years"\n-0.3,1,2',
    'c;"sepal length";"age, in years"\r\n-0.3;1;2\r\n',
    '{"c": -0.3, "age, in years": 2, "sepal length": 1, "more": 5}',
  ]) {
    assert.deepEqual(parsedRow(text, named), [1, 2, -0.3], text);
  }
  // Without names, a line of names is one.
  assert.deepEqual(parsedRow("a,b\n5,6", input([2])), [5, 6]);
  for (const [text, message] of [
    ["", /paste 3 numbers/],
    ["1,2", /found 2 numbers, needed 3/],
    ["1,2,3,4", /found 4 numbers, needed 3/],
    ["[1, 2", /no JSON/],
    ['[1, "2", 3]', /place 1/],
    ["[1, null, 3]", /place 1/],
    ["{}", /found no number for "sepal length"/],
    ["c,b,a\n1,2,3", /found no number for "sepal length"/],
    ["c,sepal length\n1,2\n3,4", /found 2 names and 4 numbers/],
    ["1,2,1e999", /place 2/],
  ]) {
    assert.throws(() => parsedRow(text, named), { message });
  }
});

test("pictures are what has their shape", () => {
  assert.deepEqual(sizeOfPicture(input([1, 28, 27])), { channels: 1, height: 28, width: 27 });
  assert.deepEqual(sizeOfPicture(input([3, 6, 8])), { channels: 3, height: 6, width: 8 });
  const none = [
    input([4, 28, 28]),
    input([784]),
    input([28, 28]),
    input([1, 2, 8]),
    input([1, 8, 8], { tableRows: 5 }),
  ];
  none.forEach((one) => assert.equal(sizeOfPicture(one), undefined));
});

test("the numbers of black and white are guessed from the ranges", () => {
  // Ranges with the margin of the calibration, a quarter.
  const around = (black, white) => ({
    low: black - (white - black) / 8,
    high: white + (white - black) / 8,
  });
  for (const [black, white] of [
    [0, 1],
    [-1, 1],
    [0, 255],
    [-0.4242, 2.8215],
  ]) {
    const one = input([1, 8, 8], around(black, white));
    assert.deepEqual(guessedLevels(one, sizeOfPicture(one)), [{ black, white }]);
  }
  // Each channel has its own, and one pixel that varies is enough.
  const size = { channels: 3, height: 8, width: 8 };
  const colours = input([3, 8, 8], { low: -0.01, high: 0.01 });
  [-2.2, -2.1, -1.9].forEach((low, channel) => (colours.low[64 * channel + 9] = low));
  [2.3, 2.5, 2.7].forEach((high, channel) => (colours.high[64 * channel + 11] = high));
  assert.deepEqual(guessedLevels(colours, size), [
    { black: -2.1179, white: 2.2489 },
    { black: -2.0357, white: 2.4286 },
    { black: -1.8044, white: 2.64 },
  ]);
  // What is not known is the range.
  const narrow = input([1, 8, 8], { low: 0.25, high: 0.75 });
  assert.deepEqual(guessedLevels(narrow, sizeOfPicture(narrow)), [{ black: 0.25, white: 0.75 }]);
});

test("pixels become numbers, channel by channel", () => {
  const pixels = Uint8ClampedArray.of(255, 0, 51, 255, 0, 255, 102, 255);
  const numbers = numbersOfPixels(pixels, { channels: 3, height: 1, width: 2 }, [
    { black: 0, white: 1 },
    { black: -1, white: 1 },
    { black: 1, white: 0 },
  ]);
  assert.deepEqual(
    Array.from(numbers, (value) => Number(value.toFixed(6))),
    [1, 0, -1, 1, 0.8, 0.6],
  );
  const grey = numbersOfPixels(pixels, { channels: 1, height: 1, width: 2 }, [{ black: 0, white: 255 }]);
  assert.deepEqual(
    Array.from(grey, (value) => Number(value.toFixed(3))),
    [82.059, 161.313],
  );
});

test("an error for questions without an answer has the answers to the others", () => {
  const predicted = { outputs: [] };
  assert.deepEqual(UnansweredError.all([predicted, predicted]), [predicted, predicted]);
  assert.deepEqual(UnansweredError.all([]), []);
  assert.throws(
    () => UnansweredError.all([predicted, { error: "far outside" }, predicted]),
    (error) => {
      assert.ok(error instanceof UnspokenError && error.code === "argument");
      assert.deepEqual(error.answers, [predicted, undefined, predicted]);
      assert.deepEqual(error.errors, [undefined, "far outside", undefined]);
      assert.match(error.message, /^found 1 of 3 questions without an answer; .* again because of it: question 1, far/);
      return true;
    },
  );
  const many = new UnansweredError(Array(12).fill(undefined), Array(12).fill("gone"));
  assert.match(many.message, /question 7, gone; and 4 more$/);
});
