#include "fence/publication/evidence_publisher.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "fence/rules/hold_annotations.h"
#include "kube/objects/decode.h"
#include "kube/text/status.h"
#include "kube/wire/url.h"

namespace moonfence::fence {
namespace {

bool enforces(const policy::ActiveSet& active) {
  const auto set = active.current();
  return set != nullptr &&
         std::any_of(set->bindings.begin(), set->bindings.end(), [](const policy::Binding& each) {
           return each.policy != nullptr && each.mode == policy::Mode::Enforce;
         });
}

// Something says that the kubelet has spoken, or what stands there is about something else.
bool may_be_over(const cluster::NodeView& node) {
  const auto evidence = parse_evidence(node.evidence_mark);
  return !evidence || !is_about(*evidence, node.uid, node.boot_id) ||
         node.readiness == cluster::Readiness::True || node.readiness == cluster::Readiness::False;
}

// The kubelet has renewed its Lease since what stands there was told. That it reports its status,
// too, may take it minutes.
bool has_renewed_since(const ReadNode& read) {
  const auto evidence = parse_evidence(read.node.evidence_mark);
  const auto& renewed = read.authority->reading.renewed;
  return evidence && !evidence->renewed.empty() && renewed &&
         format_rfc3339_micro(*renewed) != evidence->renewed;
}

// Of whoever can have it written after all; "" when the error says so itself.
std::string next_step(const Error& error) {
  if (kube::is_denied_as(kube::kNotLeader, error)) {
    return "; see docs/install.md#all-deletions-are-refused-as-moonfence-not-leader";
  }
  if (kube::is_denied_by_admission(error)) {
    return error.text.find("ValidatingAdmissionPolicy 'moonfence-") != std::string::npos
               ? "; apply moonfence's admission policies again: kubectl apply -k "
                 "deploy/rights/publish-evidence, and deploy/overlays/enforce where it is in use"
               : "; have it permit moonfence's account the annotation "
                 "moonfence.io/fencing-evidence and the condition FencingEvidence of nodes/status";
  }
  const bool lacks_right =
      error.kind == Error::Kind::Forbidden && error.text.find(" cannot get ") == std::string::npos;
  return lacks_right ? "; kubectl apply -k deploy/rights/publish-evidence" : "";
}

}  // namespace

EvidencePublisher::EvidencePublisher(Surroundings surroundings, bool on)
    : around_(std::move(surroundings)), on_(on) {}

void EvidencePublisher::lead() {
  leads_ = true;
  for (auto& [name, entry] : nodes_) {
    entry.due = {};
    entry.pause = {};
    entry.tried.reset();
  }
  next_soon();
}

// Whoever leads next finds out by itself.
void EvidencePublisher::step_down() {
  leads_ = false;
  call_.reset();
  timer_.cancel();
  soon_.cancel();
  problem_.clear();
  told_.clear();
  looks_.clear();
  forget_.cancel();
  std::erase_if(nodes_, [](const auto& each) { return !each.second.is_marked; });
  for (auto& [name, entry] : nodes_) {
    entry.wanted.reset();
  }
}

bool EvidencePublisher::may_publish(const kube::Node& node) const {
  return on_ && leads_ && enforces(around_.active) && node.name != around_.protections.own_node &&
         !hold_on_node(*node.raw, around_.protections.hold_marks);
}

bool EvidencePublisher::answers(const NodeName& node) const {
  return around_.kernels != nullptr && around_.kernels->kernel_of(node) == cluster::Kernel::Answers;
}

void EvidencePublisher::looked_at(ReadNode read) {
  if (const auto known = nodes_.find(read.node.name);
      known != nodes_.end() && has_renewed_since(read)) {
    known->second.is_heard = true;
    known->second.may_be_over = true;
    hurry(read.node.name, known->second, around_.loop.now() + kAfterARace);
    next_soon();
    return;
  }
  if (!may_publish(read.node)) {
    return;
  }
  const Moment now = around_.loop.now();
  if (!forget_.pending()) {
    forget_ = around_.loop.after(kLook, [this] { forget_looks(); });
  }
  const NodeName name = read.node.name;
  consider(
      looks_.insert_or_assign(name, Look{.read = std::move(read), .at = now}).first->second.read);
}

// A Node is large, and its incident may be over.
void EvidencePublisher::forget_looks() {
  const Moment now = around_.loop.now();
  std::erase_if(looks_, [now](const auto& each) { return now - each.second.at >= kLook; });
  if (!looks_.empty()) {
    forget_ = around_.loop.after(kLook, [this] { forget_looks(); });
  }
}

void EvidencePublisher::power_read(const NodeName& name) {
  const auto look = looks_.find(name);
  if (look != looks_.end() && around_.loop.now() - look->second.at <= kLook &&
      may_publish(look->second.read.node)) {
    consider(look->second.read);
  }
}

void EvidencePublisher::consider(const ReadNode& read) {
  if (!is_read_dead(read)) {
    return;
  }
  const kube::Node& node = read.node;
  const std::string& source = read.authority->source;
  const NodeFinding finding = {.node = node,
                               .incident = read.incident,
                               .renewed = read.authority->reading.renewed,
                               .heeds_attestation = source.empty(),
                               .sightings = sightings_of(*read.authority)};
  PublishedEvidence wanted = to_publish(finding, around_.now(), around_.loop.now());
  const bool is_needed = change_of(node, wanted, answers(node.name), around_.now()).has_value();
  const auto known = nodes_.find(node.name);
  if (!is_needed) {
    if (known != nodes_.end()) {
      known->second.wanted.reset();
    }
    return;
  }
  Entry& entry = nodes_[node.name];
  if (entry.uid != node.uid) {
    entry = Entry{.uid = node.uid};
  }
  entry.wanted = std::move(wanted);
  next_soon();
}

void EvidencePublisher::saw(const cluster::NodeView& node) {
  const bool exists = node.readiness != cluster::Readiness::Gone;
  const bool is_marked = exists && (!node.evidence_mark.empty() || node.evidence_stands);
  const auto known = nodes_.find(node.name);
  if (!is_marked) {
    if (known == nodes_.end()) {
      return;
    }
    if (std::exchange(known->second.is_marked, false)) {
      known->second.mark.clear();
      known->second.tried.reset();
    }
    known->second.may_be_over = false;
    if (!exists || known->second.uid != node.uid || !known->second.wanted) {
      nodes_.erase(known);
      next_soon();
    }
    return;
  }
  // Whoever puts it there again and again has us take it off no oftener than that.
  const Moment soon = around_.loop.now() + kAfterARace;
  Entry& entry = nodes_.try_emplace(node.name, Entry{.uid = node.uid, .due = soon}).first->second;
  if (entry.uid != node.uid) {
    entry = Entry{.uid = node.uid, .due = soon};
  }
  entry.is_marked = true;
  entry.mark = node.evidence_mark;
  entry.may_be_over = entry.is_heard || may_be_over(node);
  if (entry.may_be_over) {  // it has changed, which is what the watch tells of
    hurry(node.name, entry, soon);
  }
  next_soon();
}

void EvidencePublisher::next_soon() {
  if (nodes_.empty()) {  // nothing is left to fail
    problem_.clear();
    told_.clear();
  }
  if (leads_ && call_ == nullptr && !soon_.pending() && !nodes_.empty()) {
    soon_ = around_.loop.in_next_turn([this] { next(); });
  }
}

// Of nodes on which something stands.
void EvidencePublisher::heed_the_heard() {
  for (auto& [name, entry] : nodes_) {
    if (!entry.is_marked || !answers(name)) {
      continue;
    }
    entry.may_be_over = true;
    if (!entry.tried || !entry.tried->is_heard) {
      hurry(name, entry, Moment{});
    }
  }
}

// The one that is due for longest.
void EvidencePublisher::next() {
  if (!leads_ || call_ != nullptr || nodes_.empty()) {
    return;
  }
  heed_the_heard();
  const Moment now = around_.loop.now();
  auto first = nodes_.end();
  for (auto each = nodes_.begin(); each != nodes_.end(); ++each) {
    const Entry& entry = each->second;
    if ((entry.wanted || entry.may_be_over) && entry.due <= now &&
        (first == nodes_.end() || entry.due < first->second.due)) {
      first = each;
    }
  }
  if (first != nodes_.end()) {
    begin(first->first, first->second);
    read(first->first);
    return;
  }
  timer_ = around_.loop.after(kEvery, [this] { next(); });
}

// What is heard of the node from here on counts for the next try.
void EvidencePublisher::begin(const NodeName& name, Entry& entry) {
  entry.due = Moment::max();
  if (Aim aim = aim_of(name, entry); entry.tried != aim) {
    entry.tried = std::move(aim);
    entry.pause = {};
    entry.is_refused = false;
    entry.conflicts = 0;
  }
}

void EvidencePublisher::read(const NodeName& name) {
  const auto path = kube::node_path(name);
  if (!path) {
    nodes_.erase(NodeName(name));
    next_soon();
    return;
  }
  kube::ApiRequest request;
  request.path = *path;
  request.lane = port::Lane::Bulk;
  request.timeout = kTimeout;
  request.observed = false;  // what becomes of it says nothing of the server's health
  call_ = around_.caller.call(std::move(request),
                              [this, name](const auto& reply) { arrived(name, reply); });
}

void EvidencePublisher::arrived(const NodeName& name, const Result<kube::ApiReply>& reply) {
  if (!reply) {
    failed(name, reply.error());
    return;
  }
  const auto node = kube::decode_node(reply->body, /*keep_raw=*/true);
  if (!node) {
    failed(name, node.error());
    return;
  }
  const auto found = nodes_.find(name);
  if (found == nodes_.end() || found->second.uid != node->uid) {
    nodes_.erase(name);  // another one of that name: the watch tells of it
    done();
    return;
  }
  auto& wanted = found->second.wanted;
  if (wanted && !may_publish(*node)) {
    wanted.reset();
  }
  auto change = change_of(*node, wanted, found->second.is_heard || answers(name), around_.now());
  if (!change) {
    nothing_to_do(name);
    return;
  }
  patch(name, *node, *std::move(change));
}

void EvidencePublisher::patch(const NodeName& name, const kube::Node& node, EvidenceChange change) {
  kube::ApiRequest request;
  request.method = port::Method::Patch;
  request.path = *kube::node_path(node.name) + "/status";
  request.body = change.patch;
  request.content_type = "application/strategic-merge-patch+json";
  request.lane = port::Lane::Bulk;
  request.timeout = kTimeout;
  request.observed = false;  // a webhook that hangs makes nobody doubt the server
  request.may_send = [this] {
    const auto until = around_.leadership.acts_until();
    return until && around_.loop.live_now() < *until;
  };
  call_ = around_.caller.call(
      std::move(request),
      [this, name, change = std::move(change), wanted = nodes_.at(name).wanted](const auto& reply) {
        reply ? written(name, change, wanted) : failed(name, reply.error());
      });
}

void EvidencePublisher::written(const NodeName& name, const EvidenceChange& change,
                                const std::optional<PublishedEvidence>& wanted) {
  problem_.clear();
  told_.clear();
  around_.log.info(change.withdraws ? "evidence_withdrawn" : "evidence_published",
                   {{"node", name.text()},
                    {"text", wanted ? told(wanted->proven, wanted->boot_id) : std::string()}});
  if (const auto found = nodes_.find(name); found != nodes_.end()) {
    Entry& entry = found->second;
    if (entry.wanted == wanted) {
      entry.wanted.reset();
    }
    entry.pause = {};
    entry.tried.reset();
    entry.due = {};
    entry.is_heard = entry.is_heard && !change.withdraws;  // while it was being written
    entry.may_be_over = entry.is_heard;
    entry.is_marked = !change.withdraws;
    if (change.withdraws) {
      entry.mark.clear();
    }
    if (change.withdraws && !entry.wanted) {
      nodes_.erase(found);
    }
  }
  if (!change.news.empty() && wanted) {
    around_.published({.node = name,
                       .uid = wanted->node,
                       .incident = wanted->incident,
                       .text = told(change.news, wanted->boot_id)});
  }
  done();
}

// It stands there already, the kubelet has spoken meanwhile, or it is not over yet.
void EvidencePublisher::nothing_to_do(const NodeName& name) {
  Entry& entry = nodes_.at(name);
  entry.wanted.reset();
  entry.is_refused = false;
  entry.conflicts = 0;
  if (entry.may_be_over) {
    put_off(entry);
  } else if (entry.is_marked) {
    entry.due = {};
  } else {
    nodes_.erase(name);
  }
  done();
}

// Something that was heard meanwhile has brought the next try forward.
void EvidencePublisher::put_off(Entry& entry) {
  const Moment now = around_.loop.now();
  entry.pause = std::clamp(2 * entry.pause, kPause, kLongest);
  entry.due = std::clamp(entry.due, now + kAfterARace, now + entry.pause);
}

EvidencePublisher::Aim EvidencePublisher::aim_of(const NodeName& name, const Entry& entry) const {
  return {.mark = entry.mark,
          .is_over = entry.may_be_over,
          .is_heard = entry.is_heard || answers(name)};
}

// What was refused is not tried again for each event of its node.
void EvidencePublisher::hurry(const NodeName& name, Entry& entry, Moment due) const {
  if (!entry.is_refused || entry.tried != aim_of(name, entry)) {
    entry.due = std::min(entry.due, due);
  }
}

void EvidencePublisher::failed(const NodeName& name, const Error& error) {
  const auto found = nodes_.find(name);
  const bool is_conflict = error.kind == Error::Kind::Conflict;
  if (error.kind == Error::Kind::NotFound || found == nodes_.end()) {
    nodes_.erase(name);
  } else if (error.kind == Error::Kind::Cancelled ||
             (is_conflict && ++found->second.conflicts < kConflicts)) {
    // Somebody was faster: it is read again, and decided again. Or we do not lead any more.
    found->second.due = around_.loop.now() + kAfterARace;
  } else {
    Entry& entry = found->second;
    put_off(entry);
    entry.is_refused =
        is_conflict || error.kind == Error::Kind::Forbidden || error.kind == Error::Kind::Invalid;
    entry.conflicts = is_conflict ? entry.conflicts : 0;
    const std::string step = next_step(error);
    problem_ = "what is proven of node " + name.text() +
               " cannot be written to it: " + error.message() + step;
    std::string kind = std::string(to_string(error.kind)) + step;
    if (std::exchange(told_, kind) != kind) {
      around_.log.warning("evidence_not_published", {{"node", name.text()}, {"text", problem_}});
    }
  }
  done();
}

void EvidencePublisher::done() {
  const auto ended = std::move(call_);  // it may be what called us
  next_soon();
}

}  // namespace moonfence::fence
