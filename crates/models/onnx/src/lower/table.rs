//! Which operator is read where.

use super::elementwise::{Binary, binary, compare, power, sum};
use super::{Call, Kind, Value, activation, classes, convolution, fold, linear, normalize, shapes, slices, svm};
use crate::activation::Activation;
use crate::error::{Refusal, quoted};
use crate::finish::Comparison;
use crate::read::ML;

/// Values of the outputs of a node.
///
/// # Errors
/// If the operator is not supported, or its operands or attributes are not.
pub(super) fn lower(call: &mut Call) -> Result<Vec<Value>, Refusal> {
    let op = call.node.op_type.as_str();
    match call.node.domain.as_str() {
        "" | "ai.onnx" => match fold::fold(call)? {
            Some(values) => Ok(values),
            None => standard(call, op),
        },
        ML => classical(call, op),
        other => {
            let found = format!("an operator of the domain {}", quoted(other));
            let remedy = "export with standard operators, without optimisations of a runtime";
            Err(Refusal::new(found, format!("operators of ai.onnx and {ML}"), remedy))
        }
    }
}

/// Operators of `ai.onnx` with an operand that depends on the inputs.
fn standard(call: &mut Call, op: &str) -> Result<Vec<Value>, Refusal> {
    let data = match op {
        "Gemm" => linear::gemm(call),
        "MatMul" => linear::matmul(call),
        "Conv" => convolution::conv(call),
        "AveragePool" => convolution::pool(call, true),
        "MaxPool" => convolution::pool(call, false),
        "GlobalAveragePool" => convolution::global_average(call),
        "BatchNormalization" => normalize::batch_norm(call),
        "LayerNormalization" => normalize::layer_norm(call),
        "ReduceMean" => normalize::reduce(call, true),
        "ReduceSum" => normalize::reduce(call, false),
        "Softmax" => normalize::softmax(call, false),
        "LpNormalization" => normalize::lp_normalization(call),
        "LogSoftmax" => normalize::softmax(call, true),
        "ArgMax" => normalize::arg_max(call),
        "Identity" => identity(call),
        "Dropout" => dropout(call),
        "Shape" => return Ok(vec![shapes::shape_of(call)?]),
        "Split" => return slices::split(call),
        _ => return elementwise(call, op),
    };
    Ok(vec![Value::Data(data?)])
}

fn elementwise(call: &mut Call, op: &str) -> Result<Vec<Value>, Refusal> {
    let data = match op {
        "Add" => binary(call, Binary::Add),
        "Sub" => binary(call, Binary::Sub),
        "Mul" => binary(call, Binary::Mul),
        "Div" => binary(call, Binary::Div),
        "Sum" => sum(call),
        "Pow" => power(call),
        "Neg" => activation::negative(call),
        "PRelu" => activation::prelu(call),
        "Clip" => activation::clip(call),
        "Max" => activation::extremum(call, true),
        "Min" => activation::extremum(call, false),
        "LeakyRelu" | "Elu" | "HardSigmoid" | "Gelu" => activation::with_options(call, op),
        "Less" => compare(call, Comparison::Less),
        "LessOrEqual" => compare(call, Comparison::LessOrEqual),
        "Greater" => compare(call, Comparison::Greater),
        "GreaterOrEqual" => compare(call, Comparison::GreaterOrEqual),
        "Equal" => compare(call, Comparison::Equal),
        "Where" => classes::where_else(call),
        "Not" => classes::not(call),
        "Cast" => classes::cast(call),
        "Reshape" => shapes::reshape(call),
        "Flatten" => shapes::flatten(call),
        "Squeeze" => shapes::squeeze(call),
        "Unsqueeze" => shapes::unsqueeze(call),
        "Transpose" => shapes::transpose(call),
        "Concat" => shapes::concat(call),
        "Pad" => shapes::pad(call),
        "Expand" => shapes::expand(call),
        "Slice" => slices::slice(call),
        "Gather" => slices::gather(call),
        other => activation::plain(call, function(other)?),
    };
    Ok(vec![Value::Data(data?)])
}

/// Functions of each number without options.
pub(super) fn function(op: &str) -> Result<Activation, Refusal> {
    Ok(match op {
        "Relu" => Activation::Relu,
        "Sigmoid" => Activation::Sigmoid,
        "Tanh" => Activation::Tanh,
        "Erf" => Activation::Erf,
        "Mish" => Activation::Mish,
        "HardSwish" => Activation::HardSwish,
        "Softplus" => Activation::Softplus,
        "Abs" => Activation::Abs,
        "Exp" => Activation::Exp,
        "Log" => Activation::Log,
        "Sqrt" => Activation::Sqrt,
        "Reciprocal" => Activation::Reciprocal,
        _ => return Err(unsupported(op)),
    })
}

/// Operators of `ai.onnx.ml`.
fn classical(call: &mut Call, op: &str) -> Result<Vec<Value>, Refusal> {
    let data = match op {
        "Scaler" => classes::scaler(call),
        "LinearRegressor" => classes::regressor(call),
        "LinearClassifier" => return classes::classifier(call),
        "SVMRegressor" => svm::regressor(call),
        "SVMClassifier" => return svm::classifier(call),
        "Normalizer" => normalize::normalizer(call),
        "ZipMap" => classes::zip_map(call),
        "ArrayFeatureExtractor" => slices::feature_extractor(call),
        other => return Err(unsupported(other)),
    };
    Ok(vec![Value::Data(data?)])
}

fn identity(call: &mut Call) -> Result<super::Data, Refusal> {
    call.check_operands(1, 1)?;
    call.data(0)
}

/// `Dropout` of inference, which changes nothing.
fn dropout(call: &mut Call) -> Result<super::Data, Refusal> {
    call.check_operands(1, 3)?;
    call.attributes.float("ratio")?;
    call.attributes.int("seed")?;
    call.optional_constant(1)?;
    if let Some(training) = call.optional_constant(2)? {
        let crate::constant::Constant::Bool(training) = training else {
            return Err(Refusal::broken("a `training_mode` that is no truth value", "a truth value"));
        };
        if training.iter().any(|&training| training) {
            return Err(Refusal::new("dropout of training", "inference", "call `model.eval()` before the export"));
        }
    }
    let data = call.data(0)?;
    if data.kind == Kind::Number { Ok(data) } else { call.number(0) }
}

/// The refusal of an operator, with what to use instead where there is something.
fn unsupported(op: &str) -> Refusal {
    let remedy = match op {
        "TreeEnsembleClassifier" | "TreeEnsembleRegressor" | "TreeEnsemble" => {
            "trees compare encrypted numbers, which is not supported; train a linear model or an MLP"
        }
        "LSTM" | "GRU" | "RNN" => "use convolutions or layers over a fixed number of steps",
        "If" | "Loop" | "Scan" => "export without branches and loops that depend on the inputs",
        "QuantizeLinear" | "DequantizeLinear" | "QLinearConv" | "QLinearMatMul" | "ConvInteger" | "MatMulInteger" => {
            "export the model before it is quantised"
        }
        "ConvTranspose" | "Resize" | "Upsample" => "use convolutions with strides only",
        "GlobalMaxPool" | "ReduceMax" | "ReduceMin" => "use an average",
        "InstanceNormalization" | "GroupNormalization" => "use batch or layer normalisation",
        _ => "compose it of supported operators; the README of unspoken-onnx lists them",
    };
    Refusal::new(format!("the operator {}", quoted(op)), "a supported operator", remedy)
}
