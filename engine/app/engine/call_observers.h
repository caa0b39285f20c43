#pragma once

// CallObservers tells every call to the API server to those who learn from it: the server's clock,
// the metrics, the test of ourselves and the detection.

#include <functional>
#include <optional>
#include <utility>

#include "app/engine/self_test.h"
#include "app/telling/metrics.h"
#include "cluster/detection/detection.h"
#include "kube/wire/caller.h"
#include "kube/wire/server_clock.h"

namespace moonfence::app {

class CallObservers final : public kube::CallObserver {
 public:
  CallObservers(kube::ServerClock& clock, Metrics& metrics, SelfTest& self_test,
                cluster::Detection* detection, std::function<void()> went_back)
      : clock_(clock),
        metrics_(metrics),
        self_test_(self_test),
        detection_(detection),
        went_back_(std::move(went_back)) {}
  void on_exchange(port::Method method, int status, Duration took,
                   std::optional<WallTime> date) override {
    clock_.on_exchange(method, status, took, date);
    metrics_.on_exchange(method, status, took, date);
    self_test_.on_exchange(method, status, took, date);
    const bool slow = method == port::Method::Get && took > cluster::Detection::kCall;
    if (detection_ != nullptr && (slow || SelfTest::is_failure(method, status))) {
      detection_->call_failed();
    }
  }
  void on_went_back() override { went_back_(); }

 private:
  kube::ServerClock& clock_;
  Metrics& metrics_;
  SelfTest& self_test_;
  cluster::Detection* const detection_;  // null: machines are not watched
  const std::function<void()> went_back_;
};

}  // namespace moonfence::app
