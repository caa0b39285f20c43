#include "kube/calls/list_items.h"

#include <memory>
#include <optional>
#include <utility>

#include "kube/text/items.h"

namespace moonfence::kube {
namespace {

constexpr Duration kListTimeout = std::chrono::seconds(30);
// All pods of one node, a few hundred by the kubelet's own bound, or all records of incidents.
constexpr std::size_t kListLimit = 256U << 20U;

class ItemStream final : public ApiCall, public StreamSink {
 public:
  using Done = std::function<void(Result<ResourceVersion>)>;
  ItemStream(Caller& caller, std::string path, Query selectors, ListPlan plan, std::string what,
             ItemFlow flow, Done done)
      : caller_(caller),
        path_(std::move(path)),
        selectors_(std::move(selectors)),
        what_(std::move(what)),
        plan_(std::move(plan)),
        flow_(std::move(flow)),
        done_(std::move(done)),
        alive_(std::make_shared<int>(0)) {
    ask();
  }

  void on_open() override {}

  void on_bytes(std::string_view bytes) override {
    if (fault_) {
      return;
    }
    if (auto taken = splitter_.append(bytes); !taken) {
      fault_ = std::move(taken.error());
      return;
    }
    while (auto text = splitter_.next()) {
      begin();
      if (auto taken = flow_.take(*std::move(text)); !taken) {
        fault_ = std::move(taken.error());
        return;
      }
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
        begin();
        finish(std::move(version_));
        return;
      case ListPlan::Step::Restart:
        begun_ = false;
        version_ = {};
        ask();
        return;
      case ListPlan::Step::Page:
        if (flow_.page) {
          const auto page = flow_.page;  // the callback may destroy this
          page(version_, [this, alive = std::weak_ptr<const void>(alive_)] {
            if (!alive.expired()) {
              ask();
            }
          });
          return;
        }
        ask();
        return;
      case ListPlan::Step::Failed:
        return;  // finish_page gives its error instead
    }
  }

 private:
  void begin() {
    if (!std::exchange(begun_, true)) {
      flow_.begin();
    }
  }

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
    if (version_.empty()) {
      version_ = meta->resource_version;
    }
    return plan_.on_page(*meta);
  }

  void finish(Result<ResourceVersion> result) {
    const Done done = std::move(done_);  // the callback may destroy this
    done(std::move(result));
  }

  Caller& caller_;
  const std::string path_;
  const Query selectors_;
  const std::string what_;
  ListPlan plan_;
  ItemFlow flow_;
  Done done_;
  ItemSplitter splitter_;
  ResourceVersion version_;
  bool begun_ = false;  // since the last restart
  std::optional<Error> fault_;
  CallHandle call_;
  std::shared_ptr<const void> alive_;
};

}  // namespace

CallHandle stream_items(Caller& caller, std::string path, Query selectors, ListPlan plan,
                        std::string what, ItemFlow flow,
                        std::function<void(Result<ResourceVersion>)> done) {
  return std::make_unique<ItemStream>(caller, std::move(path), std::move(selectors),
                                      std::move(plan), std::move(what), std::move(flow),
                                      std::move(done));
}

CallHandle list_items(Caller& caller, std::string path, Query selectors, ListPlan plan,
                      std::string what, std::function<void(Result<ItemTexts>)> done,
                      ItemPages pages) {
  struct Taken {
    ItemTexts items;
    std::size_t bytes = 0;
  };
  const auto taken = std::make_shared<Taken>();
  ItemFlow flow = {.begin = [taken] { *taken = {}; },
                   .take = [taken](std::string text) -> Result<void> {
                     taken->bytes += text.size();
                     if (taken->bytes > kListLimit) {
                       return failure(Error::Kind::Limit, "the list is too large");
                     }
                     taken->items.texts.push_back(std::move(text));
                     return {};
                   }};
  if (pages.come) {
    plan.begin_with(pages.first);
    flow.page = [taken, come = std::move(pages.come)](const ResourceVersion& version,
                                                      std::function<void()> go_on) {
      ItemTexts texts = std::exchange(taken->items, {});
      texts.version = version;
      come(std::move(texts), std::move(go_on));
    };
  }
  return stream_items(caller, std::move(path), std::move(selectors), std::move(plan),
                      std::move(what), std::move(flow),
                      [taken, done = std::move(done)](Result<ResourceVersion> version) {
                        if (!version) {
                          done(failure(std::move(version.error())));
                          return;
                        }
                        taken->items.version = *std::move(version);
                        done(std::move(taken->items));
                      });
}

}  // namespace moonfence::kube
