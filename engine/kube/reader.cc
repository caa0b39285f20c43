#include "kube/reader.h"

#include <utility>

#include "kube/decode.h"
#include "kube/items.h"
#include "kube/json.h"
#include "kube/list_plan.h"
#include "kube/status.h"
#include "kube/url.h"

namespace moonfence::kube {
namespace {

// Where kubelets keep their Leases, one a node and of its name.
constexpr const char* kNodeLeases = "kube-node-lease";
constexpr Duration kListTimeout = std::chrono::seconds(30);
// All pods of one node; the kubelet's own bound is a few hundred pods.
constexpr std::size_t kListLimit = 256U << 20U;
constexpr std::size_t kGetLimit = 64U << 20U;

// One list over all its pages.
class PodList final : public ApiCall, public StreamSink {
 public:
  using Done = std::function<void(Result<std::vector<std::string>>)>;
  PodList(Caller& caller, std::string path, const PodQuery& query, Done done)
      : caller_(caller),
        path_(std::move(path)),
        query_(query),
        plan_(ListPlan::not_older_than(query.not_older_than)),
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
      fault_ = Error{.kind = Error::Kind::Limit, .text = "the pod list is too large"};
      return;
    }
    if (auto taken = items_.append(bytes); !taken) {
      fault_ = std::move(taken.error());
      return;
    }
    while (auto text = items_.next()) {
      pods_.push_back(*std::move(text));
    }
  }

  void on_close(const Result<void>& outcome) override {
    auto step = finish_page(outcome);
    if (!step) {
      finish(failure(std::move(step.error()).within("pods of node " + query_.node.text())));
      return;
    }
    switch (*step) {
      case ListPlan::Step::Done:
        finish(std::move(pods_));
        return;
      case ListPlan::Step::Restart:
        pods_.clear();
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
    items_ = ItemSplitter();
    fault_.reset();
    Query query = plan_.query();
    query.emplace_back("fieldSelector", "spec.nodeName=" + query_.node.text());
    if (!query_.label_selector.empty()) {
      query.emplace_back("labelSelector", query_.label_selector);
    }
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
    const auto meta = items_.finish();
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
  const PodQuery query_;
  ListPlan plan_;
  Done done_;
  ItemSplitter items_;
  std::vector<std::string> pods_;
  std::size_t read_ = 0;
  std::optional<Error> fault_;
  CallHandle call_;
};

ApiRequest read_request(std::string path) {
  return ApiRequest{
      .path = std::move(path), .query = {}, .body = {}, .content_type = {}, .may_send = {}};
}

}  // namespace

CallHandle Reader::get_node(const NodeName& name, std::function<void(Result<Node>)> done) {
  auto path = node_path(name);
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  return caller_.call(read_request(*std::move(path)), [done = std::move(done),
                                                       name](Result<ApiReply> reply) {
    if (!reply) {
      done(failure(std::move(reply.error())));
      return;
    }
    auto node = decode_node(reply->body, /*keep_raw=*/true);
    if (node && node->name != name) {
      node = failure(Error::Kind::Malformed, "the server answered with node " + node->name.text());
    }
    done(std::move(node));
  });
}

CallHandle Reader::get_attachment(const std::string& name,
                                  std::function<void(Result<Attachment>)> done) {
  auto path = attachment_path(name);
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  return caller_.call(
      read_request(*std::move(path)), [done = std::move(done), name](Result<ApiReply> reply) {
        if (!reply) {
          done(failure(std::move(reply.error())));
          return;
        }
        auto attachment = decode_attachment(reply->body);
        if (attachment && attachment->name != name) {
          attachment = failure(Error::Kind::Malformed,
                               "the server answered with volume attachment " + attachment->name);
        }
        done(std::move(attachment));
      });
}

CallHandle Reader::get_node_lease(const NodeName& name, Duration limit,
                                  std::function<void(Result<Lease>)> done) {
  auto path = lease_path({.space = Namespace(kNodeLeases), .name = name.text()});
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  ApiRequest request = read_request(*std::move(path));
  request.timeout = limit;
  return caller_.call(std::move(request), [done = std::move(done)](Result<ApiReply> reply) {
    if (!reply) {
      done(failure(std::move(reply.error())));
      return;
    }
    done(decode_lease(reply->body));
  });
}

CallHandle Reader::list_node_leases(Duration limit, std::function<void(Result<LeaseSigns>)> done) {
  return list_leases(caller_, Namespace(kNodeLeases), limit, std::move(done));
}

CallHandle Reader::list_pods(const PodQuery& query,
                             std::function<void(Result<std::vector<std::string>>)> done) {
  auto path = pods_path(query.space);
  if (path && query.node.empty()) {
    path = failure(Error::Kind::Invalid, "pods are listed by node, and no node is given");
  }
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  return std::make_unique<PodList>(caller_, *std::move(path), query, std::move(done));
}

CallHandle Reader::get(std::string path, std::function<void(Result<ApiReply>)> done) {
  return caller_.call(read_request(std::move(path)), std::move(done));
}

CallHandle Reader::get_list(std::string path, Query query,
                            std::function<void(Result<ApiReply>)> done) {
  ApiRequest request = read_request(std::move(path));
  request.query = std::move(query);
  request.lane = port::Lane::Bulk;
  request.timeout = kListTimeout;
  request.body_limit = kGetLimit;
  return caller_.call(std::move(request), std::move(done));
}

}  // namespace moonfence::kube
