#pragma once

// One visitor out of several lambdas: std::visit(Overloaded{[](const A&) {…}, [](const B&) {…}},
// variant). It compiles only if every alternative has its case.

namespace moonfence {

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};

template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

}  // namespace moonfence
