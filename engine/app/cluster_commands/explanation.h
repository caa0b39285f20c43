#pragma once

// One pod of a plan in sentences: which bindings select it, what each said, what refuses, what to
// do next. Pure.

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "app/rehearsal/plan.h"

namespace moonfence::app {

struct Explained {
  PodRef pod;
  // How each binding in force stands to it, in their order.
  struct Binding {
    std::string name;
    std::string namespaces;
    policy::Mode mode = policy::Mode::Observe;
    enum class Relation { Selects, OtherNamespace, OtherLabels, Broken };
    Relation relation = Relation::Selects;
    std::string detail;  // the selector that does not match, or why there is no policy
    std::vector<Plan::Word> said = {};  // about the pod
    std::vector<Plan::Word> held = {};  // about the whole node, which is why it said nothing
  };
  std::vector<Binding> bindings;
  Plan::Node node;
  std::optional<Plan::Pod> planned;  // nullopt: no policy was asked about it
  Duration hold_down{};
  std::string frozen = {};  // see Plan

  // The word by which a policy that selects the pod puts its node out of service first: Kubernetes
  // evicts the pod then, unless it tolerates that. Null: nobody does.
  [[nodiscard]] const Plan::Word* retired_by() const;
  // The pod, or its attachments, would go.
  [[nodiscard]] bool acts() const;
};

[[nodiscard]] Explained explain(const PodRef& pod, const kube::Labels& labels,
                                const policy::PolicySet& policies, const Plan& plan);
[[nodiscard]] std::string explained_text(const Explained& explained);
[[nodiscard]] nlohmann::ordered_json explained_document(const Explained& explained,
                                                        const Plan& plan);

}  // namespace moonfence::app
