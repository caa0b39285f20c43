#include "kube/kubelet/kubelet_api.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "kube/wire/url.h"

namespace moonfence::kube {
namespace {

class KubeletQuestion final : public ApiCall, public StreamSink {
 public:
  using Done = std::function<void(Result<KubeletWord>)>;
  KubeletQuestion(Caller& caller, std::string proxy, Done done)
      : caller_(caller), proxy_(std::move(proxy)), done_(std::move(done)) {
    ask();
  }

  void on_open() override {}

  void on_bytes(std::string_view bytes) override {
    if (fault_) {
      return;
    }
    auto taken = step_ == Step::Metrics ? metrics_.append(bytes) : pods_->append(bytes);
    if (!taken) {
      fault_ = std::move(taken.error());
    }
  }

  void on_close(const Result<void>& outcome) override {
    auto read = outcome ? take() : outcome;
    if (!outcome) {
      finish(failure(outcome.error()));
    } else if (!read) {
      finish(failure(Error(read.error()).within("the kubelet's " + path())));
    } else if (step_ == Step::Metrics) {
      finish(std::move(word_));
    } else {
      step_ = step_ == Step::Wanted ? Step::Running : Step::Metrics;
      ask();
    }
  }

 private:
  // The process comes last: what it says is then true of the answers before as well, unless it was
  // started between them, which the next question shows.
  enum class Step { Wanted, Running, Metrics };

  [[nodiscard]] std::string path() const {
    switch (step_) {
      case Step::Wanted:
        return "/pods";
      case Step::Running:
        return "/runningpods/";
      case Step::Metrics:
        return "/metrics";
    }
    return {};
  }

  void ask() {
    pods_.emplace();
    ApiRequest request;
    request.path = proxy_ + path();
    request.lane = port::Lane::Endpoints;  // by which the answer is known to be another server's
    request.timeout = kKubeletLimit;
    call_ = caller_.stream(std::move(request), *this);
  }

  Result<void> take() {
    if (fault_) {
      return failure(*fault_);
    }
    if (step_ == Step::Metrics) {
      auto process = metrics_.finish();
      if (!process) {
        return failure(std::move(process.error()));
      }
      word_.process = *std::move(process);
      return {};
    }
    auto pods = pods_->finish();
    if (!pods) {
      return failure(std::move(pods.error()));
    }
    (step_ == Step::Wanted ? word_.wanted : word_.running) = *std::move(pods);
    return {};
  }

  void finish(Result<KubeletWord> result) {
    const Done done = std::move(done_);  // the callback may destroy this
    done(std::move(result));
  }

  Caller& caller_;
  const std::string proxy_;
  Done done_;
  Step step_ = Step::Wanted;
  std::optional<KubeletPodsReader> pods_;
  KubeletMetricsReader metrics_;
  KubeletWord word_;
  std::optional<Error> fault_;
  CallHandle call_;
};

}  // namespace

CallHandle ask_kubelet(Caller& caller, const NodeName& node,
                       std::function<void(Result<KubeletWord>)> done) {
  auto path = node_path(node);
  if (!path) {
    return caller.refuse(std::move(path.error()),
                         [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  return std::make_unique<KubeletQuestion>(caller, *std::move(path) + "/proxy", std::move(done));
}

}  // namespace moonfence::kube
