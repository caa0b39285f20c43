#include "app/rehearsal/rehearsal_http.h"

#include <utility>

#include "kube/wire/url.h"

namespace moonfence::app {

using nlohmann::json;

namespace {

// How long a machine that is supposed to be dead has been silent when Kubernetes says so.
constexpr Duration kSilence = std::chrono::seconds(40);

bool opens_watch(std::string_view url) {
  return url.find("?watch=1") != std::string_view::npos ||
         url.find("&watch=1") != std::string_view::npos;
}

json parsed(const std::string& text) {
  json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  return value.is_discarded() ? json() : value;
}

std::string last_segment(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// What is absent is null, as the API server's own library has it.
bool holds(const json& object, const json& test) {
  const json::json_pointer at(test.value("path", ""));
  return (object.contains(at) ? object.at(at) : json()) == test.value("value", json());
}

}  // namespace

json with_node_down(json node, WallTime at) {
  if (!node.is_object() || node.value("kind", "") == "Status") {
    return node;
  }
  json& conditions = node["status"]["conditions"];
  json ready = {{"type", "Ready"},
                {"status", "Unknown"},
                {"reason", "NodeStatusUnknown"},
                {"message", "supposed by moonfence plan --assume-down"},
                {"lastHeartbeatTime", format_rfc3339(at - kSilence)},
                {"lastTransitionTime", format_rfc3339(at)}};
  json others = json::array();
  if (conditions.is_array()) {
    for (const json& condition : conditions) {
      if (condition.is_object() && condition.value("type", "") != "Ready") {
        others.push_back(condition);
      }
    }
  }
  others.push_back(std::move(ready));
  conditions = std::move(others);
  json& taints = node["spec"]["taints"];
  if (!taints.is_array()) {
    taints = json::array();
  }
  for (const char* const effect : {"NoSchedule", "NoExecute"}) {
    taints.push_back({{"key", "node.kubernetes.io/unreachable"},
                      {"effect", effect},
                      {"timeAdded", format_rfc3339(at)}});
  }
  return node;
}

json with_lease_old(json lease, WallTime at) {
  if (lease.is_object() && lease.contains("spec") && lease["spec"].is_object()) {
    lease["spec"]["renewTime"] = format_rfc3339_micro(at - kSilence);
  }
  return lease;
}

// A read on its way to the API server and back.
class RehearsalHttp::Passage final : public port::Transfer, public port::HttpSink {
 public:
  Passage(RehearsalHttp& owner, port::HttpSink& sink, std::string path, bool watch)
      : owner_(owner),
        sink_(sink),
        rewrite_(owner.rewrite_for(path)),
        watch_(watch),
        path_(std::move(path)) {
    ++owner_.outstanding_;
  }
  ~Passage() override { settle(); }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;

  void begin(port::HttpRequest request) {
    transfer_ = owner_.real_.start(std::move(request), *this);
  }

  void on_head(const port::HttpHead& head) override {
    if (watch_) {
      settle();  // it is open
    }
    if ((head.status == 401 || head.status == 403) && owner_.refusal_.empty()) {
      owner_.refusal_ = path_;
    }
    rewrites_ = rewrite_ != nullptr && head.status == 200;
    sink_.on_head(head);
  }
  void on_body(std::string_view bytes) override {
    if (rewrites_) {
      held_ += bytes;
    } else {
      sink_.on_body(bytes);
    }
  }
  void on_end(const port::HttpEnd& end) override {
    settle();
    if (rewrites_ && !held_.empty()) {
      sink_.on_body(rewrite_(std::move(held_)));
    }
    sink_.on_end(end);
  }

 private:
  void settle() {
    if (!settled_) {
      settled_ = true;
      --owner_.outstanding_;
    }
  }

  RehearsalHttp& owner_;
  port::HttpSink& sink_;
  const Rewrite rewrite_;
  const bool watch_;
  const std::string path_;  // empty: of another server
  bool rewrites_ = false;
  bool settled_ = false;
  std::string held_;
  std::unique_ptr<port::Transfer> transfer_;
};

// A write, answered in the next turn.
class RehearsalHttp::Answer final : public port::Transfer {
 public:
  Answer(RehearsalHttp& owner, port::HttpRequest request, port::HttpSink& sink)
      : owner_(owner), request_(std::move(request)), sink_(sink) {
    ++owner_.outstanding_;
    next_turn_ = owner_.loop_.in_next_turn([this] { deliver(); });
  }
  ~Answer() override { settle(); }
  Answer(const Answer&) = delete;
  Answer& operator=(const Answer&) = delete;

 private:
  void deliver() {
    settle();
    if (request_.may_send && !request_.may_send()) {
      sink_.on_end(
          {.error = Error{.kind = Error::Kind::Cancelled, .text = "refused before its bytes left"},
           .sent = false});
      return;
    }
    const std::string_view url = request_.url;
    if (!url.starts_with(owner_.server_)) {
      sink_.on_end({.error = Error{.kind = Error::Kind::Cancelled,
                                   .text = "a rehearsal writes to nobody: " + request_.url},
                    .sent = false});
      return;
    }
    const std::string path(
        url.substr(owner_.server_.size(), url.find('?') - owner_.server_.size()));
    owner_.writes_.push_back(
        {.method = request_.method, .path = path, .body = parsed(request_.body)});
    const Reply reply = owner_.reply_to(owner_.writes_.back());
    sink_.on_head({.status = reply.status, .headers = {{"content-type", "application/json"}}});
    sink_.on_body(reply.body.dump(-1, ' ', false, json::error_handler_t::replace));
    sink_.on_end({.error = std::nullopt, .sent = true});
  }
  void settle() {
    if (!settled_) {
      settled_ = true;
      --owner_.outstanding_;
    }
  }

  RehearsalHttp& owner_;
  const port::HttpRequest request_;
  port::HttpSink& sink_;
  loop::Timer next_turn_;
  bool settled_ = false;
};

RehearsalHttp::RehearsalHttp(port::Http& real, loop::Loop& loop, std::string server)
    : real_(real), loop_(loop), server_(std::move(server)) {}

void RehearsalHttp::suppose_down(const NodeName& name, WallTime at) {
  if (const auto path = kube::node_path(name)) {
    down_.insert_or_assign(*path, std::pair(name, at));
    down_.insert_or_assign(
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/" + last_segment(*path),
        std::pair(name, at));
  }
}

std::unique_ptr<port::Transfer> RehearsalHttp::start(port::HttpRequest request,
                                                     port::HttpSink& sink) {
  const bool ours = request.url.starts_with(server_) && request.lane != port::Lane::Endpoints;
  // Only logging in to an endpoint leaves without being a reading.
  if (request.method != port::Method::Get && request.lane != port::Lane::Endpoints) {
    return std::make_unique<Answer>(*this, std::move(request), sink);
  }
  const std::string path =
      ours ? request.url.substr(server_.size(), request.url.find('?') - server_.size())
           : std::string();
  auto passage = std::make_unique<Passage>(*this, sink, path, opens_watch(request.url));
  passage->begin(std::move(request));
  return passage;
}

RehearsalHttp::Rewrite RehearsalHttp::rewrite_for(const std::string& path) {
  constexpr std::string_view kNodes = "/api/v1/nodes/";
  if (path.starts_with(kNodes)) {
    return [this, path](const std::string& text) { return seen_node(path, text); };
  }
  const auto down = down_.find(path);
  if (down == down_.end()) {
    return nullptr;
  }
  return [at = down->second.second](const std::string& text) {
    const json lease = parsed(text);
    return lease.is_null() ? text : with_lease_old(lease, at).dump();
  };
}

std::string RehearsalHttp::seen_node(const std::string& path, const std::string& text) {
  json node = parsed(text);
  if (!node.is_object()) {
    return text;
  }
  if (const auto down = down_.find(path); down != down_.end()) {
    node = with_node_down(std::move(node), down->second.second);
  }
  if (const auto patch = patches_.find(path); patch != patches_.end()) {
    try {
      node = node.patch(patch->second);
    } catch (const json::exception&) {
      patches_.erase(patch);  // the node has changed meanwhile, and the engine sees it as it is
    }
  }
  nodes_[path] = node;
  return node.dump();
}

RehearsalHttp::Reply RehearsalHttp::reply_to(const Write& write) {
  if (write.method == port::Method::Patch && write.path.starts_with("/api/v1/nodes/")) {
    return patch_node(write);
  }
  if (write.method == port::Method::Delete &&
      write.path.find("/volumeattachments/") != std::string::npos) {
    // It is only marked: its attacher has to let go.
    return {.status = 200,
            .body = {{"kind", "VolumeAttachment"},
                     {"metadata", {{"finalizers", {"external-attacher"}}}}}};
  }
  if (write.method == port::Method::Delete) {
    return {.status = 200, .body = {{"kind", "Status"}, {"status", "Success"}}};
  }
  json body = write.body.is_object() ? write.body : json::object();
  json& metadata = body["metadata"];
  metadata = metadata.is_object() ? metadata : json::object();
  if (write.method == port::Method::Patch) {
    metadata["name"] = last_segment(write.path);
    const std::size_t space = write.path.find("/namespaces/");
    if (space != std::string::npos) {
      const std::string rest = write.path.substr(space + std::string_view("/namespaces/").size());
      metadata["namespace"] = rest.substr(0, rest.find('/'));
    }
  }
  metadata["uid"] = metadata.value("uid", "rehearsed");
  metadata["resourceVersion"] = std::to_string(writes_.size());
  return {.status = write.method == port::Method::Post ? 201 : 200, .body = std::move(body)};
}

RehearsalHttp::Reply RehearsalHttp::patch_node(const Write& write) {
  const bool of_status = write.path.ends_with("/status");
  const std::string path = of_status ? write.path.substr(0, write.path.rfind('/')) : write.path;
  const auto known = nodes_.find(path);
  const auto refused = [](const std::string& why) {
    return Reply{.status = 422,
                 .body = {{"kind", "Status"},
                          {"status", "Failure"},
                          {"code", 422},
                          {"reason", "Invalid"},
                          {"message", why}}};
  };
  if (known == nodes_.end() || !write.body.is_array()) {
    return refused("the rehearsal has not read this node");
  }
  try {
    json operations = json::array();
    for (const json& operation : write.body) {
      if (operation.value("op", "") != "test") {
        operations.push_back(operation);
      } else if (!holds(known->second, operation)) {
        return refused("testing value " + operation.value("path", "") + " failed");
      }
    }
    json changed = known->second.patch(operations);
    json& kept = patches_.try_emplace(path, json::array()).first->second;
    kept.insert(kept.end(), operations.begin(), operations.end());
    known->second = changed;
    return {.status = 200, .body = std::move(changed)};
  } catch (const json::exception& fault) {
    return refused(fault.what());
  }
}

}  // namespace moonfence::app
