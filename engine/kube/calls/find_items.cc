#include "kube/calls/find_items.h"

#include <memory>
#include <optional>
#include <utility>

#include "kube/text/items.h"
#include "kube/text/json.h"
#include "kube/text/object_parser.h"
#include "kube/wire/list_plan.h"

namespace moonfence::kube {
namespace {

constexpr Duration kPageTimeout = std::chrono::seconds(30);

class ItemSearch final : public ApiCall, public StreamSink {
 public:
  using Names = std::function<std::set<std::string>()>;
  using Done = std::function<void(FoundItems, const Result<void>&)>;

  ItemSearch(Caller& caller, std::string path, Names names, Done done)
      : caller_(caller),
        path_(std::move(path)),
        ask_names_(std::move(names)),
        done_(std::move(done)),
        plan_(ListPlan::consistent()) {
    ask();
  }

  void on_open() override {
    if (ask_names_) {
      names_ = std::exchange(ask_names_, nullptr)();
    }
  }

  void on_bytes(std::string_view bytes) override {
    if (fault_) {
      return;
    }
    if (auto taken = splitter_.append(bytes); !taken) {
      fault_ = std::move(taken.error());
      return;
    }
    while (auto text = splitter_.next()) {
      take(*text);
    }
  }

  void on_close(const Result<void>& outcome) override {
    auto next = finish_page(outcome);
    if (next && *next == ListPlan::Step::Page && is_worth_it()) {
      ask();
      return;
    }
    found_.complete = next && *next == ListPlan::Step::Done;
    const Done done = std::move(done_);  // the callback may destroy this
    FoundItems found = std::move(found_);
    done(std::move(found), next ? Result<void>() : failure(std::move(next.error()).within(path_)));
  }

 private:
  void ask() {
    splitter_ = ItemSplitter();
    call_ = caller_.stream(ApiRequest{.path = path_,
                                      .query = plan_.query(),
                                      .body = {},
                                      .content_type = {},
                                      .lane = port::Lane::Bulk,
                                      .timeout = kPageTimeout,
                                      .may_send = {}},
                           *this);
  }

  void take(const std::string& text) {
    ++seen_;
    auto item = parser_.parse(text);
    if (!item) {
      fault_ = std::move(item.error());
      return;
    }
    std::string name = Fields(*item).string({"metadata", "name"});
    if (names_.contains(name)) {
      found_.items.insert_or_assign(std::move(name), *std::move(item));
    }
  }

  // A list of several pages from before its token expired is of no use: single reads are.
  Result<ListPlan::Step> finish_page(const Result<void>& outcome) {
    if (fault_) {
      return failure(*fault_);
    }
    if (!outcome) {
      return failure(Error(outcome.error()));
    }
    const auto meta = splitter_.finish();
    if (!meta) {
      return failure(meta.error());
    }
    remaining_ = meta->remaining;
    return plan_.on_page(*meta);
  }

  // A server that does not say how much there is has as much as anybody can bear.
  [[nodiscard]] bool is_worth_it() const {
    return found_.items.size() < names_.size() && remaining_ &&
           seen_ + *remaining_ <= kItemsForOneRead * names_.size();
  }

  Caller& caller_;
  const std::string path_;
  Names ask_names_;
  Done done_;
  ListPlan plan_;
  ItemSplitter splitter_;
  ObjectParser parser_{{{"metadata", "managedFields"}}};  // nobody asks for them: half of an item
  std::set<std::string> names_;
  FoundItems found_;
  std::size_t seen_ = 0;
  std::optional<std::size_t> remaining_;  // items on later pages
  std::optional<Error> fault_;
  CallHandle call_;
};

}  // namespace

CallHandle find_items(Caller& caller, std::string path,
                      std::function<std::set<std::string>()> names,
                      std::function<void(FoundItems, const Result<void>&)> done) {
  return std::make_unique<ItemSearch>(caller, std::move(path), std::move(names), std::move(done));
}

}  // namespace moonfence::kube
