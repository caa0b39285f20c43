#include "kube/list_items.h"

#include <memory>
#include <optional>
#include <utility>

#include "kube/items.h"

namespace moonfence::kube {
namespace {

constexpr Duration kListTimeout = std::chrono::seconds(30);
// All pods of one node, a few hundred by the kubelet's own bound, or all records of incidents.
constexpr std::size_t kListLimit = 256U << 20U;

class ItemList final : public ApiCall, public StreamSink {
 public:
  using Done = std::function<void(Result<std::vector<std::string>>)>;
  ItemList(Caller& caller, std::string path, Query selectors, ListPlan plan, std::string what,
           Done done)
      : caller_(caller),
        path_(std::move(path)),
        selectors_(std::move(selectors)),
        what_(std::move(what)),
        plan_(std::move(plan)),
        done_(std::move(done)) {
    ask();
  }

  void on_open() override {}

  void on_bytes(std::string_view bytes) override {
    if (fault_) {
      return;
    }
    read_ += bytes.size();
    if (read_ > kListLimit) {
      fault_ = Error{.kind = Error::Kind::Limit, .text = "the list is too large"};
      return;
    }
    if (auto taken = splitter_.append(bytes); !taken) {
      fault_ = std::move(taken.error());
      return;
    }
    while (auto text = splitter_.next()) {
      items_.push_back(*std::move(text));
    }
  }

  void on_close(const Result<void>& outcome) override {
    auto step = finish_page(outcome);
    if (!step) {
      finish(failure(std::move(step.error()).within(what_)));
      return;
    }
    switch (*step) {
      case ListPlan::Step::Done:
        finish(std::move(items_));
        return;
      case ListPlan::Step::Restart:
        items_.clear();
        ask();
        return;
      case ListPlan::Step::Page:
        ask();
        return;
      case ListPlan::Step::Failed:
        return;  // finish_page gives its error instead
    }
  }

 private:
  void ask() {
    splitter_ = ItemSplitter();
    fault_.reset();
    Query query = plan_.query();
    query.insert(query.end(), selectors_.begin(), selectors_.end());
    call_ = caller_.stream(ApiRequest{.path = path_,
                                      .query = std::move(query),
                                      .body = {},
                                      .content_type = {},
                                      .lane = port::Lane::Bulk,
                                      .timeout = kListTimeout,
                                      .may_send = {}},
                           *this);
  }

  Result<ListPlan::Step> finish_page(const Result<void>& outcome) {
    if (fault_) {
      return failure(*fault_);
    }
    if (!outcome) {
      const auto step = plan_.on_error(outcome.error());
      if (step == ListPlan::Step::Failed) {
        return failure(outcome.error());
      }
      return step;
    }
    const auto meta = splitter_.finish();
    if (!meta) {
      return failure(meta.error());
    }
    return plan_.on_page(*meta);
  }

  void finish(Result<std::vector<std::string>> result) {
    const Done done = std::move(done_);  // the callback may destroy this
    done(std::move(result));
  }

  Caller& caller_;
  const std::string path_;
  const Query selectors_;
  const std::string what_;
  ListPlan plan_;
  Done done_;
  ItemSplitter splitter_;
  std::vector<std::string> items_;
  std::size_t read_ = 0;
  std::optional<Error> fault_;
  CallHandle call_;
};

}  // namespace

CallHandle list_items(Caller& caller, std::string path, Query selectors, ListPlan plan,
                      std::string what,
                      std::function<void(Result<std::vector<std::string>>)> done) {
  return std::make_unique<ItemList>(caller, std::move(path), std::move(selectors), std::move(plan),
                                    std::move(what), std::move(done));
}

}  // namespace moonfence::kube
