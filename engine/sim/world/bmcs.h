#pragma once

// The machines' management controllers, by Redfish: each says whether its machine has power and
// switches it off, as its plan says, honestly or not. What happens to the machine happens in truth.

#include <functional>
#include <list>
#include <map>
#include <string>
#include <string_view>

#include "sim/controllers/kubelet.h"
#include "sim/ground/ground.h"
#include "sim/net/bmc_http.h"

namespace moonfence::sim {

class Bmcs final {
 public:
  using Find = std::function<Kubelet*(const std::string& machine)>;
  Bmcs(const Ground& ground, const Plan& plan, Find find);
  Bmcs(const Bmcs&) = delete;
  Bmcs& operator=(const Bmcs&) = delete;

  // Takes the question there; `heard` is called with the answer when it has arrived, on the
  // cluster's loop.
  void send(Duration way, BmcQuestion question, BmcHttp::Heard heard);
  // Whose machine that endpoint switches off; null: there is none of that name.
  [[nodiscard]] const BmcPlan* find(std::string_view endpoint) const;

 private:
  struct Bmc {
    BmcPlan plan;
    bool ordered = false;  // to switch off
    loop::Timer goes_off;
    loop::Timer comes_on;
    bool came_on = false;
  };
  [[nodiscard]] BmcAnswer answer(const BmcQuestion& question);
  [[nodiscard]] BmcAnswer order(Bmc& bmc, const std::string& body);
  [[nodiscard]] std::string state_of(const Bmc& bmc) const;
  void switch_off(Bmc& bmc);
  void tell(const Bmc& bmc, std::string_view what) const;

  const Ground& ground_;
  Find find_;
  std::map<std::string, Bmc, std::less<>> by_endpoint_;
  std::list<loop::Timer> under_way_;
};

}  // namespace moonfence::sim
