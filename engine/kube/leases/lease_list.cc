#include "kube/leases/lease_list.h"

#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "kube/leases/lease.h"
#include "kube/text/items.h"
#include "kube/text/json.h"

namespace moonfence::kube {
namespace {

// 5,000 nodes have 5 MB of Leases.
constexpr std::size_t kListLimit = 64U << 20U;
constexpr std::int64_t kLongestLease = 86400;

class LeaseList final : public ApiCall, public StreamSink {
 public:
  using Done = std::function<void(Result<LeaseSigns>)>;
  LeaseList(Caller& caller, std::string path, ListFrom from, Duration limit, Done done)
      : done_(std::move(done)) {
    Query query;
    if (from == ListFrom::Cache) {
      query.emplace_back("resourceVersion", "0");
    }
    call_ = caller.stream(ApiRequest{.path = std::move(path),
                                     .query = std::move(query),
                                     .body = {},
                                     .content_type = {},
                                     .lane = port::Lane::Bulk,
                                     .timeout = limit,
                                     .may_send = {}},
                          *this);
  }

  void on_open() override {}

  void on_bytes(std::string_view bytes) override {
    if (fault_) {
      return;
    }
    read_ += bytes.size();
    if (read_ > kListLimit) {
      fault_ = Error{.kind = Error::Kind::Limit, .text = "the list of Leases is too large"};
    } else if (auto taken = items_.append(bytes); !taken) {
      fault_ = std::move(taken.error());
    }
    while (auto text = fault_ ? std::nullopt : items_.next()) {
      take(*text);
    }
  }

  void on_close(const Result<void>& outcome) override {
    const Done done = std::move(done_);  // the callback may destroy this
    const auto meta = items_.finish();
    if (!outcome) {
      done(failure(outcome.error()));
    } else if (fault_) {
      done(failure(*std::move(fault_)));
    } else if (!meta) {
      done(failure(meta.error()));
    } else if (!meta->continue_token.empty()) {
      done(failure(Error::Kind::Malformed, "a page of the Leases, where all were asked for"));
    } else {
      signs_.version = meta->resource_version;
      done(std::move(signs_));
    }
  }

 private:
  void take(const std::string& text) {
    const auto item = parse_json(text);
    if (!item) {
      fault_ = Error(item.error()).within("a Lease of the list");
      return;
    }
    Fields fields(*item, "Lease");
    LeaseSign sign = {.name = fields.required({"metadata", "name"}),
                      .renewed = fields.time({"spec", "renewTime"}),
                      .version = ResourceVersion(fields.string({"metadata", "resourceVersion"})),
                      .duration = std::chrono::seconds(std::clamp<std::int64_t>(
                          fields.integer({"spec", "leaseDurationSeconds"}), 0, kLongestLease))};
    if (fields.fault()) {
      fault_ = *fields.fault();
      return;
    }
    signs_.leases.push_back(std::move(sign));
  }

  Done done_;
  ItemSplitter items_;
  LeaseSigns signs_;
  std::size_t read_ = 0;
  std::optional<Error> fault_;
  CallHandle call_;
};

}  // namespace

CallHandle list_leases(Caller& caller, const Namespace& space, ListFrom from, Duration limit,
                       std::function<void(Result<LeaseSigns>)> done) {
  auto path = leases_path(space);
  if (!path) {
    return caller.refuse(std::move(path.error()),
                         [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  return std::make_unique<LeaseList>(caller, *std::move(path), from, limit, std::move(done));
}

}  // namespace moonfence::kube
