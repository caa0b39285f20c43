#include "kube/calls/destroyer.h"

#include <algorithm>
#include <utility>

#include "kube/objects/objects.h"
#include "kube/text/json.h"
#include "kube/wire/url.h"

namespace moonfence::kube {
namespace {

// The server's answer that it ran out of time still has to travel.
constexpr Duration kTravelTime = std::chrono::milliseconds(500);

std::string delete_options(const DeleteRequest& request, bool without_grace) {
  nlohmann::json options = {{"apiVersion", "v1"},
                            {"kind", "DeleteOptions"},
                            {"preconditions", {{"uid", request.uid.text()}}},
                            {"propagationPolicy", "Background"}};
  if (without_grace) {
    options["gracePeriodSeconds"] = 0;
  }
  if (request.dry_run) {
    options["dryRun"] = {"All"};
  }
  return to_text(options);
}

// A 200 means marked, not gone: an object with finalizers, or one that a kubelet is still given
// time to stop, comes back as it now is.
DeleteReply read_reply(const ApiReply& reply) {
  DeleteReply out{
      .audit_id = reply.audit_id, .marked_only = reply.status == 202, .http_status = reply.status};
  Fields fields(reply.body);
  const nlohmann::json* finalizers = fields.array({"metadata", "finalizers"});
  if ((finalizers != nullptr && !finalizers->empty()) ||
      fields.integer({"metadata", "deletionGracePeriodSeconds"}) > 0 || fields.fault()) {
    out.marked_only = true;  // also when in doubt: the caller then looks again
  }
  return out;
}

bool says_gone_or_another(const Error& error) {
  return error.http_status == 404 || error.http_status == 409 || error.http_status == 410;
}

// What a list of the objects of one name shows; nothing when it is no list, or the very object is
// there.
DeleteReply read_absence(const nlohmann::json& list, const Uid& uid) {
  DeleteReply out;
  Fields fields(list);
  const nlohmann::json* items = fields.array({"items"});
  if (items == nullptr || fields.fault()) {
    return out;
  }
  out.found_gone = items->empty();
  for (const nlohmann::json& item : *items) {
    Fields object(item);
    const std::string found = object.string({"metadata", "uid"});
    out.found_another = !found.empty() && found != uid.text();
  }
  return out;
}

// A deletion, and the live read of its object where the answer needs one. That read is a list of
// the objects of that name, which the server reads by its key: an empty list is the server's own
// word, a 404 may be anybody's.
class Removal final : public ApiCall {
 public:
  using Done = std::function<void(Result<DeleteReply>)>;
  Removal(Caller& caller, ApiRequest request, std::string name, Uid uid, Done done)
      : caller_(caller),
        collection_(request.path.substr(0, request.path.rfind('/'))),
        name_(std::move(name)),
        uid_(std::move(uid)),
        done_(std::move(done)) {
    call_ = caller_.call(std::move(request), [this](Result<ApiReply> reply) {
      if (reply) {
        finish(read_reply(*reply));
      } else if (says_gone_or_another(reply.error())) {
        look(std::move(reply.error()));
      } else {
        finish(failure(std::move(reply.error())));
      }
    });
  }

 private:
  void look(Error refusal) {
    refusal_ = std::move(refusal);
    ApiRequest request;
    request.path = collection_;
    request.query = {{"fieldSelector", "metadata.name=" + selector_value(name_)}};
    request.timeout = Destroyer::kLookTimeout;
    call_ = caller_.call(std::move(request), [this](const Result<ApiReply>& found) {
      DeleteReply reply = found ? read_absence(found->body, uid_) : DeleteReply();
      if (reply.found_gone || reply.found_another) {
        reply.http_status = refusal_.http_status;
        finish(std::move(reply));
      } else {
        finish(failure(std::move(refusal_)));
      }
    });
  }

  void finish(Result<DeleteReply> reply) {
    const Done done = std::move(done_);  // the callback may destroy this
    done(std::move(reply));
  }

  Caller& caller_;
  const std::string collection_;
  const std::string name_;
  const Uid uid_;
  Done done_;
  Error refusal_;
  CallHandle call_;
};

// Kubernetes' own kinds are of groups without a dot, or of k8s.io.
bool is_custom(const CustomWrite& write) {
  const auto slash = write.api_version.find('/');
  const std::string group = write.api_version.substr(0, slash);
  return slash != std::string::npos && group.find('.') != std::string::npos && group != "k8s.io" &&
         !group.ends_with(".k8s.io");
}

Result<std::string> not_custom(const CustomWrite& write) {
  return failure(Error::Kind::Invalid, write.api_version + " is Kubernetes' own");
}

}  // namespace

CallHandle Destroyer::delete_pod(const PodRef& ref, DeleteRequest request,
                                 std::function<void(Result<DeleteReply>)> done) {
  return remove(pod_path(ref), ref.name, "delete pod " + ref.text(), /*without_grace=*/true,
                std::move(request), std::move(done));
}

CallHandle Destroyer::delete_attachment(const std::string& name, DeleteRequest request,
                                        std::function<void(Result<DeleteReply>)> done) {
  return remove(attachment_path(name), name, "delete volume attachment " + name,
                /*without_grace=*/false, std::move(request), std::move(done));
}

CallHandle Destroyer::patch_node(const NodeName& name, NodePatch patch,
                                 std::function<void(Result<PatchReply>)> done) {
  auto path = node_path(name);
  if (path && patch.uid.empty()) {
    path = failure(Error::Kind::Invalid, "a patch without a UID could hit a replacement");
  }
  if (path && patch.timeout <= Duration::zero()) {
    path = failure(Error::Kind::Invalid, "a patch without a time limit");
  }
  if (!path) {
    return caller_.refuse(std::move(path.error()).within("patch node " + name.text()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  nlohmann::json operations = nlohmann::json::array();
  operations.push_back({{"op", "test"}, {"path", "/metadata/uid"}, {"value", patch.uid.text()}});
  operations.insert(operations.end(), patch.operations.begin(), patch.operations.end());
  return send_patch(*std::move(path) + (patch.of_status ? "/status" : ""), to_text(operations),
                    "application/json-patch+json", patch.timeout, std::move(patch.may_send),
                    std::move(done));
}

CallHandle Destroyer::send_patch(std::string path, std::string body, const std::string& type,
                                 Duration timeout, std::function<bool()> may_send,
                                 std::function<void(Result<PatchReply>)> done) {
  ApiRequest api;
  api.method = port::Method::Patch;
  api.path = std::move(path);
  api.query = {{"timeout", format_duration(timeout)}};
  api.body = std::move(body);
  api.content_type = type;
  api.lane = port::Lane::Writes;
  api.timeout = timeout + kTravelTime;
  api.may_send = std::move(may_send);
  return caller_.call(std::move(api), [done = std::move(done)](Result<ApiReply> reply) {
    if (!reply) {
      done(failure(std::move(reply.error())));
      return;
    }
    done(PatchReply{.audit_id = reply->audit_id, .http_status = reply->status});
  });
}

CallHandle Destroyer::fail_pod(const PodRef& ref, PodFailure failing,
                               std::function<void(Result<PatchReply>)> done) {
  auto path = pod_path(ref);
  if (path && (failing.uid.empty() || failing.version.empty())) {
    path = failure(Error::Kind::Invalid, "without UID and version it could hit a replacement");
  }
  if (path && failing.timeout <= Duration::zero()) {
    path = failure(Error::Kind::Invalid, "a patch without a time limit");
  }
  if (!path) {
    return caller_.refuse(std::move(path.error()).within("fail pod " + ref.text()),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  const nlohmann::json patch = {
      {"metadata", {{"uid", failing.uid.text()}, {"resourceVersion", failing.version.text()}}},
      {"status",
       {{"phase", "Failed"},
        {"conditions",
         {{{"type", "DisruptionTarget"},
           {"status", "True"},
           {"reason", kDeletionByMoonfence},
           {"message", failing.message},
           {"lastTransitionTime", format_rfc3339(failing.now)}}}}}}};
  return send_patch(*std::move(path) + "/status", to_text(patch),
                    "application/strategic-merge-patch+json", failing.timeout,
                    std::move(failing.may_send), std::move(done));
}

CallHandle Destroyer::create(CustomWrite write,
                             std::function<void(Result<CustomWriteReply>)> done) {
  auto path = is_custom(write)
                  ? objects_path(write.api_version, write.resource, Namespace(write.space))
                  : not_custom(write);
  return this->write(std::move(path), port::Method::Post, std::move(write), std::move(done));
}

CallHandle Destroyer::annotate(CustomWrite write,
                               std::function<void(Result<CustomWriteReply>)> done) {
  auto path = is_custom(write) ? object_path(write.api_version, write.resource,
                                             Namespace(write.space), write.name)
                               : not_custom(write);
  auto annotations = nlohmann::json::parse(write.body, nullptr, false);
  if (path && (write.uid.empty() || !annotations.is_object())) {
    path = failure(Error::Kind::Invalid, "annotations need an object and its UID");
  }
  write.body =
      to_text({{"metadata", {{"uid", write.uid.text()}, {"annotations", std::move(annotations)}}}});
  return this->write(std::move(path), port::Method::Patch, std::move(write), std::move(done));
}

CallHandle Destroyer::write(Result<std::string> path, port::Method method, CustomWrite write,
                            std::function<void(Result<CustomWriteReply>)> done) {
  if (path && write.timeout <= Duration::zero()) {
    path = failure(Error::Kind::Invalid, "a write without a time limit");
  }
  if (!path) {
    return caller_.refuse(std::move(path.error()).within("write " + write.resource),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  ApiRequest api;
  api.method = method;
  api.path = *std::move(path);
  api.query = {{"timeout", format_duration(write.timeout)}};
  api.body = std::move(write.body);
  api.content_type =
      method == port::Method::Patch ? "application/merge-patch+json" : "application/json";
  api.lane = port::Lane::Writes;
  api.timeout = write.timeout + kTravelTime;
  api.may_send = std::move(write.may_send);
  return caller_.call(std::move(api), [done = std::move(done)](Result<ApiReply> reply) {
    if (!reply && reply.error().reason == "AlreadyExists") {
      done(CustomWriteReply{.audit_id = {}, .http_status = reply.error().http_status});
    } else if (!reply) {
      done(failure(std::move(reply.error())));
    } else {
      done(CustomWriteReply{.audit_id = reply->audit_id, .http_status = reply->status});
    }
  });
}

CallHandle Destroyer::remove(Result<std::string> path, const std::string& name,
                             const std::string& what, bool without_grace, DeleteRequest request,
                             std::function<void(Result<DeleteReply>)> done) {
  if (path && request.uid.empty()) {
    path = failure(Error::Kind::Invalid, "a delete without a UID could hit a replacement");
  }
  if (path && request.timeout <= Duration::zero()) {
    path = failure(Error::Kind::Invalid, "a delete without a time limit");
  }
  if (!path) {
    return caller_.refuse(std::move(path.error()).within(what),
                          [done = std::move(done)](const Error& error) { done(failure(error)); });
  }
  ApiRequest api;
  api.method = port::Method::Delete;
  api.path = *std::move(path);
  api.query = {{"timeout", format_duration(request.timeout)}};
  if (request.dry_run) {
    api.query.emplace_back("dryRun", "All");
  }
  api.body = delete_options(request, without_grace);
  api.content_type = "application/json";
  api.lane = port::Lane::Writes;
  api.timeout = request.timeout + kTravelTime;
  api.may_send = std::move(request.may_send);
  return std::make_unique<Removal>(caller_, std::move(api), name, std::move(request.uid),
                                   std::move(done));
}

}  // namespace moonfence::kube
