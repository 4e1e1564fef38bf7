//! Comparison of memory estimates with measured allocations, and of the planner's formulas with a counting run.

#[path = "../../../engine/ckks/tests/common/memory.rs"]
mod memory;

use memory::{Checks, Server, allocated, own_parameters, peak};
use unspoken_ckks::{CkksParameters, CostModel, Encoder, Simulator};
use unspoken_lookup::{Lookup, LookupPlan, LookupTask, OutputForm, Table, estimate};

const COMPLEX: &str = "insecure_n11_depth9_scale50";
const REAL: &str = "insecure_n11_real_depth9_scale50";
const DEEP: &str = "insecure_n11_depth24_scale52";

/// Test cases: preset, plan, form, and the numbers of subtables, rows and columns.
const CASES: [(&str, LookupPlan, OutputForm, [usize; 3]); 10] = [
    (COMPLEX, LookupPlan::Paper, OutputForm::Rows, [2, 5, 64]),
    (COMPLEX, LookupPlan::ComplexFirst, OutputForm::Pairs, [3, 8, 64]),
    (COMPLEX, LookupPlan::ComplexFirst, OutputForm::Rows, [1, 100, 16]),
    (COMPLEX, LookupPlan::LazyLast, OutputForm::Pairs, [3, 20, 64]),
    (COMPLEX, LookupPlan::BabyGiant { babies: 8 }, OutputForm::Pairs, [4, 2, 128]),
    (COMPLEX, LookupPlan::BabyGiant { babies: 4 }, OutputForm::Rows, [2, 150, 32]),
    (REAL, LookupPlan::Cosine { babies: 8 }, OutputForm::Rows, [3, 40, 64]),
    (REAL, LookupPlan::Cosine { babies: 32 }, OutputForm::Rows, [2, 4, 64]),
    (DEEP, LookupPlan::Indicator, OutputForm::Rows, [1, 3, 32]),
    (COMPLEX, LookupPlan::OneHot, OutputForm::Pairs, [2, 6, 32]),
];

fn lookup(
    parameters: &CkksParameters,
    plan: LookupPlan,
    form: OutputForm,
    [subtables, rows, columns]: [usize; 3],
) -> Lookup {
    let entry = |i: usize| (i * 7919 % 1000) as f64 / 500.0 - 1.0;
    let table = |_| Table::new(rows, &(0..rows * columns).map(entry).collect::<Vec<_>>()).unwrap();
    let tables: Vec<Table> = (0..subtables).map(table).collect();
    Lookup::new(parameters, &tables, plan, form, subtables as f64, None).unwrap()
}

#[test]
fn estimates_bound_what_is_allocated_and_counted() {
    let mut checks = Checks::default();
    for (preset, plan, form, shape) in CASES {
        let parameters = own_parameters(preset);
        let [subtables, rows, columns] = shape;
        let name = format!("{plan} of {subtables} tables of {rows} x {columns}");
        let planned = lookup(&parameters, plan, form, shape);
        let vectors = subtables * plan.index_encoding().vectors(columns);
        let query = (planned.input_level(), planned.input_scale());

        // The formulas of the planner agree with a counting run.
        let counter = Simulator::counting(&Encoder::new(&parameters));
        let inputs: Vec<_> = (0..vectors).map(|_| counter.encrypt(&[], query.0, query.1).unwrap()).collect();
        let counted = counter.working_bytes(|counter| planned.run(counter, &inputs)).unwrap();
        let task = LookupTask { subtables, rows, columns, form };
        let model = CostModel::nominal(&parameters);
        let estimated = estimate(&parameters, task, plan, &model).unwrap();
        assert_eq!(estimated.working_bytes, planned.working_bytes(), "{name}");
        checks.agree(&name, counted, planned.working_bytes(), 1.5);
        let cost = counter.cost();
        assert_eq!(estimated.cost.key_switches, cost.key_switches, "{name}");
        assert_eq!(estimated.cost.tensors, cost.tensors, "{name}");
        assert_eq!(estimated.cost.rescales, cost.rescales, "{name}");
        assert_eq!(estimated.cost.matrix_macs, cost.matrix_macs, "{name}");
        assert_eq!(estimated.cost.limb_transforms, cost.limb_transforms, "{name}");
        assert_eq!(estimated.cost.conversion_macs, cost.conversion_macs, "{name}");
        assert_eq!(estimated.cost.key_macs, cost.key_macs, "{name}");
        let ratio = estimated.seconds / model.seconds(&cost);
        println!("{name}: {ratio:.3} times the seconds that are counted");
        assert!((0.9..1.1).contains(&ratio), "{name}: {ratio} times the seconds that are counted");

        let server = Server::new(preset, &planned.key_plan(), vectors, query);
        let before = allocated();
        let lookup = lookup(server.encoder.parameters(), plan, form, shape);
        // Headers of lists and of small matrices are not counted.
        let lists = (64 * rows * subtables + 8192) as u64;
        checks.check(&format!("{name}, prepared"), allocated() - before, lookup.prepared_bytes() + lists, 3.0);
        let (outputs, measured) = peak(|| lookup.run(&server.evaluator(), &server.inputs));
        outputs.unwrap();
        checks.check(&format!("{name}, allocated"), measured, lookup.working_bytes(), 3.5);
    }
    checks.finish();
}
