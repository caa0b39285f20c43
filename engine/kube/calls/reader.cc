#include "kube/calls/reader.h"

#include <utility>

#include "kube/calls/list_items.h"
#include "kube/calls/named_read.h"
#include "kube/objects/decode.h"
#include "kube/text/json.h"
#include "kube/text/status.h"
#include "kube/wire/url.h"

namespace moonfence::kube {
namespace {

// Where kubelets keep their Leases, one a node and of its name.
constexpr const char* kNodeLeases = "kube-node-lease";
constexpr Duration kListTimeout = std::chrono::seconds(30);

ApiRequest read_request(std::string path) {
  return ApiRequest{
      .path = std::move(path), .query = {}, .body = {}, .content_type = {}, .may_send = {}};
}

}  // namespace

CallHandle Reader::get_node(const NodeName& name, std::function<void(Result<Node>)> done,
                            std::function<void()> looks) {
  auto path = node_path(name);
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  return read_named(
      caller_, read_request(*std::move(path)), name.text(),
      [done = std::move(done), name](Result<ApiReply> reply) {
        if (!reply) {
          done(failure(std::move(reply.error())));
          return;
        }
        auto node = decode_node(reply->body, /*keep_raw=*/true);
        if (node && node->name != name) {
          node =
              failure(Error::Kind::Malformed, "the server answered with node " + node->name.text());
        }
        done(std::move(node));
      },
      std::move(looks));
}

CallHandle Reader::get_attachment(const std::string& name,
                                  std::function<void(Result<Attachment>)> done) {
  auto path = attachment_path(name);
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  return get_named(*std::move(path), name, [done = std::move(done), name](Result<ApiReply> reply) {
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

CallHandle Reader::may(const Right& right, std::function<void(Result<bool>)> done) {
  return ask_access(caller_, right, std::move(done));
}

CallHandle Reader::ask_kubelet(const NodeName& name,
                               std::function<void(Result<KubeletWord>)> done) {
  return kube::ask_kubelet(caller_, name, std::move(done));
}

CallHandle Reader::list_node_leases(ListFrom from, Duration limit,
                                    std::function<void(Result<LeaseSigns>)> done) {
  return list_leases(caller_, Namespace(kNodeLeases), from, limit, std::move(done));
}

CallHandle Reader::list_pods(const PodQuery& query, std::function<void(Result<ItemTexts>)> done,
                             ItemPages pages) {
  auto path = pods_path(query.space);
  if (path && query.node.empty()) {
    path = failure(Error::Kind::Invalid, "pods are listed by node, and no node is given");
  }
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  Query selectors = {{"fieldSelector", "spec.nodeName=" + selector_value(query.node.text())}};
  if (!query.label_selector.empty()) {
    selectors.emplace_back("labelSelector", query.label_selector);
  }
  return list_items(caller_, *std::move(path), std::move(selectors),
                    ListPlan::not_older_than(query.not_older_than),
                    "pods of node " + query.node.text(), std::move(done), std::move(pages));
}

CallHandle Reader::list_namespace_pods(const Namespace& space, const std::string& name,
                                       ItemFlow flow,
                                       std::function<void(Result<ResourceVersion>)> done) {
  auto path = pods_path(space);
  if (path && space.empty()) {
    path = failure(Error::Kind::Invalid, "pods are listed by namespace, and no namespace is given");
  }
  if (!path) {
    return caller_.refuse(std::move(path.error()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  Query selectors;
  if (!name.empty()) {
    selectors.emplace_back("fieldSelector", "metadata.name=" + selector_value(name));
  }
  return stream_items(caller_, *std::move(path), std::move(selectors), ListPlan::consistent(),
                      "pods of namespace " + space.text(), std::move(flow), std::move(done));
}

CallHandle Reader::get(std::string path, std::function<void(Result<ApiReply>)> done) {
  return caller_.call(read_request(std::move(path)), std::move(done));
}

CallHandle Reader::get_named(std::string path, std::string name,
                             std::function<void(Result<ApiReply>)> done) {
  return read_named(caller_, read_request(std::move(path)), std::move(name), std::move(done));
}

CallHandle Reader::get_listed(std::string path, const std::string& name,
                              std::function<void(Result<ApiReply>)> done) {
  ApiRequest request = read_request(std::move(path));
  request.query = {{"fieldSelector", "metadata.name=" + selector_value(name)}};
  request.timeout = kListTimeout;
  return caller_.call(std::move(request), [done = std::move(done), name](Result<ApiReply> reply) {
    if (!reply) {
      if (reply.error().kind == Error::Kind::NotFound) {  // of a collection: nobody's word on it
        reply.error().kind = Error::Kind::Retryable;
      }
      done(std::move(reply));
      return;
    }
    nlohmann::json list = std::move(reply->body);
    Fields fields(list);
    const bool is_null = list.is_object() && list.contains("items") && list["items"].is_null();
    const nlohmann::json* items = fields.array({"items"});
    if (is_null || (items != nullptr && items->empty())) {  // null is an empty list, as of Go
      done(failure(Error::Kind::NotFound, "the list of that name is empty"));
    } else if (items == nullptr || items->size() > 1) {
      done(failure(Error::Kind::Malformed, "the answer is no list of one name"));
    } else if (Fields(items->front()).string({"metadata", "name"}) != name) {
      done(failure(Error::Kind::Malformed, "the server answered with another object"));
    } else {
      reply->body = std::move(list["items"][0]);
      done(std::move(reply));
    }
  });
}

CallHandle Reader::get_list(std::string path, Query query,
                            std::function<void(Result<ApiReply>)> done, ListForm form) {
  ApiRequest request = read_request(std::move(path));
  request.query = std::move(query);
  request.lane = port::Lane::Bulk;
  request.timeout = kListTimeout;
  request.body_limit = form.limit;
  request.metadata_only = form.metadata_only;
  return caller_.call(std::move(request), std::move(done));
}

CallHandle Reader::find(std::string path, std::function<std::set<std::string>()> names,
                        std::function<void(FoundItems, const Result<void>&)> done) {
  return find_items(caller_, std::move(path), std::move(names), std::move(done));
}

}  // namespace moonfence::kube
