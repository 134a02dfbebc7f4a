// Gradients of maps without atomic additions: in the order of queries and samples, whoever computes them. For GPUs.
#pragma once

#include <Halide.h>

namespace deformkit {

/// Sums of cells, part by part: a part's cells are dealt out in shares.
struct SumsInOrder {
    Halide::Var d{"d"}, cell{"cell"}, share{"share"}, part{"part"};
    Halide::RDom samples;       ///< the corner first
    Halide::Func sums{"sums"};  ///< (d, cell, share, part, m, b): of key (part * cells + cell) * shares + share

    SumsInOrder(int cells, int shares) : cells_(cells), shares_(shares) {}

    /// Of channel d of `key` of head (or group) m.
    Halide::Expr sum(const Halide::Var &key, const Halide::Var &m, const Halide::Var &b) const {
        return sums(d, key / shares_ % cells_, key % shares_, key / (cells_ * shares_), m, b);
    }

protected:
    /// Each of `samples` adds `added` to the cell of `key`, if it `counts`.
    void add(const Halide::Expr &counts, const Halide::Expr &key, const Halide::Expr &added, const Halide::Var &m,
             const Halide::Var &b) {
        const Halide::Expr at = key - part * cells_ * shares_;
        samples.where(counts && at >= 0 && at < cells_ * shares_ && at % shares_ == share);
        sums(d, cell, share, part, m, b) = 0.f;
        sums(d, unsafe_promise_clamped(at / shares_, 0, cells_ - 1), share, part, m, b) += added;
    }

private:
    int cells_, shares_;
};

}  // namespace deformkit
