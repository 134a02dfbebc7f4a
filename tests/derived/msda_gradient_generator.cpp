// The gradients of MSDA as Halide's automatic differentiation derives them from the algorithm of the forward. For tests only:
// slow, without NaN rules, and by nobody's hand.
#include <Halide.h>

#include "generators/algorithms/msda_forward.h"

namespace {

using namespace Halide;
using deformkit::MsdaForward;
using Internal::Call;

/// Strict arithmetic has no derivative: plain arithmetic in its place, and clamps where an index was promised to be clamped.
/// What one sample adds to a sum: the sum so far is zero, the sample a Var, and its tap an expression.
class Summand : public Internal::IRMutator {
public:
    explicit Summand(const MsdaForward &forward) : forward_(forward) {}

private:
    using IRMutator::visit;

    Expr visit(const Internal::Variable *op) override { return op->reduction_domain.defined() ? Expr(forward_.s) : Expr(op); }

    Expr visit(const Call *op) override {
        std::vector<Expr> args;
        for (const Expr &arg : op->args) {
            args.push_back(mutate(arg));
        }
        if (op->call_type == Call::Halide && op->name == forward_.of_group.name()) {
            return Internal::make_zero(op->type);
        }
        if (op->call_type == Call::Halide && (op->name == forward_.head_taps.name() || op->name == forward_.taps.name())) {
            const Func &taps = op->name == forward_.taps.name() ? forward_.taps : forward_.head_taps;
            std::map<std::string, Expr> at;
            for (int i = 0; i < taps.dimensions(); i++) {
                at[taps.args()[i].name()] = args[i];
            }
            return mutate(Internal::simplify(Internal::substitute(at, taps.value())));
        }
        using Binary = Expr (*)(Expr, Expr);
        const std::pair<Call::IntrinsicOp, Binary> relaxed[] = {
            {Call::strict_add, [](Expr a, Expr b) { return a + b; }}, {Call::strict_sub, [](Expr a, Expr b) { return a - b; }},
            {Call::strict_mul, [](Expr a, Expr b) { return a * b; }}, {Call::strict_lt, [](Expr a, Expr b) { return a < b; }},
            {Call::strict_le, [](Expr a, Expr b) { return a <= b; }}, {Call::strict_eq, [](Expr a, Expr b) { return a == b; }},
        };
        for (const auto &[intrinsic, plain] : relaxed) {
            if (op->is_intrinsic(intrinsic)) {
                return plain(args[0], args[1]);
            }
        }
        if (op->is_intrinsic(Call::unsafe_promise_clamped)) {
            return clamp(args[0], args[1], args[2]);
        }
        return IRMutator::visit(op);
    }

    const MsdaForward &forward_;
};

/// The output as a plain sum over samples, the one form of a sum with gathers in it that Halide differentiates.
Func differentiable(const MsdaForward &forward, const Expr &num_samples) {
    Func output("output"), summand("summand");
    const Var d = forward.d, m = forward.m, q = forward.q, b = forward.b, s = forward.s;
    summand(d, s, m, q, b) =
        Summand(forward).mutate(Internal::substitute(forward.g.name(), 0, forward.of_group.update_value()));
    const RDom samples(0, num_samples);
    output(d, m, q, b) = Internal::make_zero(summand.value().type());
    output(d, m, q, b) += summand(d, samples.x, m, q, b);
    return output;
}

/// Shapes, fastest axis first, mins all zero: value, grad_value [D, M, K, B];  level_table [M * S, 3];
/// sampling_locations, grad_sampling_locations [2, M * S, Q, B];  attention_weights, grad_attention_weights [M * S, Q, B];
/// grad_output [D, M, Q, B].
class MsdaGradientGenerator : public Generator<MsdaGradientGenerator> {
public:
    Input<Buffer<double, 4>> value{"value"};
    Input<Buffer<int32_t, 2>> level_table{"level_table"};
    Input<Buffer<double, 4>> sampling_locations{"sampling_locations"};
    Input<Buffer<double, 3>> attention_weights{"attention_weights"};
    Input<Buffer<double, 4>> grad_output{"grad_output"};
    Input<int32_t> num_samples{"num_samples"};
    Output<Buffer<double, 4>> grad_value{"grad_value"};
    Output<Buffer<double, 4>> grad_sampling_locations{"grad_sampling_locations"};
    Output<Buffer<double, 3>> grad_attention_weights{"grad_attention_weights"};

    void generate() {
        // Bounds of what is derived are generous: beyond their edges, inputs are never used but may be read.
        const Func values = BoundaryConditions::repeat_edge(value), table = BoundaryConditions::repeat_edge(level_table);
        const Func locations = BoundaryConditions::repeat_edge(sampling_locations);
        const Func weights = BoundaryConditions::repeat_edge(attention_weights);
        const Func upstream = BoundaryConditions::constant_exterior(grad_output, Expr(0.0));

        deformkit::MsdaForwardInputs in;
        in.value = values;
        in.level_table = table;
        in.sampling_locations = locations;
        in.attention_weights = weights;
        in.num_channels = value.dim(0).extent();
        in.num_keys = value.dim(2).extent();
        in.key_step = 1;
        in.max_position = value.dim(2).extent() - 1;
        in.num_samples = in.group = num_samples;
        in.fused = true;
        in.check_cells = Internal::const_true();
        const MsdaForward forward(in);

        Region bounds;
        for (int i = 0; i < 4; i++) {
            bounds.emplace_back(grad_output.dim(i).min(), grad_output.dim(i).extent());
        }
        const Derivative derivative = propagate_adjoints(differentiable(forward, num_samples), upstream, bounds);
        grad_value(_) = derivative(values)(_);
        grad_sampling_locations(_) = derivative(locations)(_);
        grad_attention_weights(_) = derivative(weights)(_);
        for (const Func &input : {values, locations, weights}) {
            derivative(input).compute_root();
        }
    }
};

}  // namespace

HALIDE_REGISTER_GENERATOR(MsdaGradientGenerator, msda_gradient_derived)
