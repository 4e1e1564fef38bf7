// All kernels with their arguments, in the order of `kernel.rs`.
#pragma once

#include "batches.h"
#include "ceiling.h"
#include "digits.h"
#include "elements.h"
#include "matrices.h"
#include "switching.h"
#include "tables.h"
#include "transform.h"

#define KERNELS(X) \
    X(copy, ElementArgs) \
    X(sum, ElementArgs) \
    X(difference, ElementArgs) \
    X(negative, ElementArgs) \
    X(product, ElementArgs) \
    X(add_products, ElementArgs) \
    X(scale, FactorArgs) \
    X(add_scaled, FactorArgs) \
    X(add_words, FactorArgs) \
    X(times_imaginary, ElementArgs) \
    X(tensor, TensorArgs) \
    X(product_sums, SumsArgs) \
    X(automorphisms, AutomorphismArgs) \
    X(convert, ConvertArgs) \
    X(quotient, QuotientArgs) \
    X(divide, DivideArgs) \
    X(key_products, KeyArgs) \
    X(forward_columns, TransformArgs) \
    X(forward_runs, TransformArgs) \
    X(inverse_runs, TransformArgs) \
    X(inverse_columns, TransformArgs) \
    X(fold, FoldArgs) \
    X(unfold, FoldArgs) \
    X(matrix_product, MatrixArgs) \
    X(steps, StepArgs) \
    X(module_rows, ModuleArgs) \
    X(select_rows, SelectArgs) \
    X(pack_rows, PackArgs) \
    X(signed_digits, DigitArgs) \
    X(rotated_differences, RotationArgs) \
    X(coefficient_map, MapArgs) \
    X(table_sums, TableArgs) \
    X(byte_sums, ByteArgs) \
    X(byte_changes, ChangeArgs) \
    X(raise_sums, RaiseArgs) \
    X(orbit_key, OrbitArgs) \
    X(window_sums, WindowArgs) \
    X(gather, GatherArgs) \
    X(scatter, ScatterArgs) \
    X(batch, BatchArgs) \
    X(choices, ChoiceArgs) \
    X(key_rows, RowArgs) \
    X(ceiling, CeilingArgs)
