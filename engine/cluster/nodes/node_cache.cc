#include "cluster/nodes/node_cache.h"

#include <nlohmann/json.hpp>

namespace moonfence::cluster {
namespace {

// The same node went down, or went down again while we were not looking: its Ready condition has
// the status we know but changed in between. Whose clock stamped that may have gone back.
bool fell(const NodeView& before, const NodeView& after) {
  if (!is_down(after.readiness) || before.uid != after.uid) {
    return false;
  }
  if (!is_down(before.readiness)) {
    return true;
  }
  return before.readiness == after.readiness && before.since && after.since &&
         *before.since != *after.since;
}

}  // namespace

NodeCache::NodeCache(loop::Loop& loop, port::Log& log, Duration expiry, NodeListener& listener,
                     Counting counting)
    : loop_(loop),
      log_(log),
      expiry_(expiry),
      listener_(listener),
      counting_(std::move(counting)) {}

kube::WatchTarget NodeCache::target(kube::KubeletAddresses addresses) {
  return {.resource = "nodes",
          .path = "/api/v1/nodes",
          .field_selector = {},
          .label_selector = {},
          .omitted = kube::omitted_of_nodes(addresses),
          .only_news = true};
}

void NodeCache::on_init() {
  incoming_.clear();
  receiving_ = true;
}

void NodeCache::on_init_apply(const nlohmann::json& object) {
  auto node = kube::decode_node(object);
  if (!node) {
    log_.error("node_undecodable", {{"error", node.error().message()}});
    keep_old_belief(object);
    return;
  }
  const NodeView view = viewed(*node, object);
  incoming_.insert_or_assign(view.name, view);
}

void NodeCache::keep_old_belief(const nlohmann::json& object) {
  // Left out of the new picture, a node that merely cannot be decoded would look deleted.
  const nlohmann::json::json_pointer name("/metadata/name");
  if (object.is_object() && object.contains(name) && object[name].is_string()) {
    if (const NodeView* old = find(NodeName(object[name].get<std::string>()))) {
      incoming_.insert_or_assign(old->name, *old);
    }
  }
}

void NodeCache::on_init_done() {
  if (!receiving_) {
    return;
  }
  receiving_ = false;
  std::map<NodeName, NodeView> fresh;
  fresh.swap(incoming_);
  std::vector<NodeName> missing;
  for (const auto& [name, entry] : entries_) {
    if (!fresh.contains(name)) {
      missing.push_back(name);
    }
  }
  for (const NodeName& name : missing) {
    remove(name);
  }
  if (synced_) {
    for (const auto& [name, view] : fresh) {
      apply(view);
    }
    return;
  }
  // The first picture: complete before anybody is told, so that counts are true from the start.
  for (auto& [name, view] : fresh) {
    view.standing =
        is_down(view.readiness) ? standing_found(view, loop_.now(), counting_) : standing_up(view);
    stamp(entries_.insert_or_assign(name, Entry{.view = view, .expires = std::nullopt})
              .first->second);
    census_.add(view);
    listener_.saw(view);
  }
  listener_.census_changed(census_);
  synced_ = true;
  schedule_expiry();
  for (const auto& [name, view] : fresh) {
    if (is_down(view.readiness)) {
      listener_.look_at(view, Look::Swept);
    } else if (view.is_marked()) {
      listener_.look_at(view, Look::Changed);  // it came back while nobody looked
    }
  }
}

void NodeCache::on_apply(const nlohmann::json& object) {
  auto node = kube::decode_node(object);
  if (!node) {
    log_.error("node_undecodable", {{"error", node.error().message()}});
    return;
  }
  apply(viewed(*node, object));
}

void NodeCache::on_delete(const nlohmann::json& object) {
  auto node = kube::decode_node(object);
  if (!node) {
    log_.error("node_undecodable", {{"error", node.error().message()}});
    return;
  }
  remove(node->name);
}

NodeView NodeCache::viewed(const kube::Node& node, const nlohmann::json& object) const {
  NodeView view = view_of(node);
  view.excluded = counting_.excludes(node.labels);
  view.hold = counting_.hold ? counting_.hold(object) : std::nullopt;
  return view;
}

void NodeCache::excuse(const NodeName& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !is_down(found->second.view.readiness)) {
    return;
  }
  const NodeView before = found->second.view;
  found->second.view.standing.group = Standing::Group::None;
  recount(&before, &found->second.view);
}

void NodeCache::apply(NodeView view) {
  const auto found = entries_.find(view.name);
  if (found == entries_.end()) {
    const auto departed = departed_.extract(view.name);
    const bool is_made_anew = !departed.empty();
    const bool is_joining = is_down(view.readiness) && !is_made_anew && view.never_ready;
    view.standing = !is_down(view.readiness) ? standing_up(view)
                    : is_made_anew
                        ? standing_fallen(departed.mapped().view.standing, view, loop_.now())
                    : is_joining ? standing_joining()
                                 : standing_found(view, loop_.now(), counting_);
    // Created while we run. If it never was Ready it waits until it was once or its entry expires:
    // a node that is still joining has nothing to fence (row NB-11). Of one that was Ready and fell
    // we have missed all that.
    stamp(
        entries_
            .emplace(view.name, Entry{.view = view, .expires = std::nullopt, .joining = is_joining})
            .first->second);
    schedule_expiry();
    listener_.saw(view);
    recount(nullptr, &view);
    // Pods of a deleted one may be bound to one that is made anew, whether it ever joins or not.
    if (is_made_anew || (is_down(view.readiness) && !is_joining)) {
      listener_.look_at(view, is_down(view.readiness) ? Look::Fell : Look::Changed);
    }
    return;
  }
  if (found->second.view.uid != view.uid) {  // its deletion was not heard of
    remove(view.name);
    apply(std::move(view));
    return;
  }
  Entry& entry = found->second;
  const NodeView before = entry.view;
  const bool again = fell(before, view);
  if (is_down(view.readiness)) {
    Standing until_now = before.standing;
    if (again && is_down(before.readiness)) {
      until_now = standing_up(view);  // it was Ready in between
    }
    view.standing = standing_fallen(until_now, view, loop_.now());
  } else {
    view.standing = standing_up(view);
  }
  entry.view = view;
  entry.joining = is_down(view.readiness) && (entry.joining || before.uid != view.uid);
  if (before == view) {
    return;
  }
  listener_.saw(view);
  recount(&before, &view);
  if (again || before.uid != view.uid || is_down(before.readiness) != is_down(view.readiness)) {
    unstamp(entry);
    stamp(entry);
    schedule_expiry();
  }
  listener_.look_at(view, again ? Look::Fell : Look::Changed);
}

void NodeCache::remove(const NodeName& name) {
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    return;
  }
  NodeView view = found->second.view;
  unstamp(found->second);
  entries_.erase(found);
  schedule_expiry();
  recount(&view, nullptr);
  const Look why = is_down(view.readiness) ? Look::Changed : Look::Fell;
  view.readiness = Readiness::Gone;
  listener_.saw(view);
  view.keeps_replacements_off = true;  // nothing can be bound to it
  forget_departed();
  departed_.insert_or_assign(view.name, Departed{.view = view, .at = loop_.now()});
  listener_.look_at(view, why);
}

void NodeCache::forget_departed() {
  std::erase_if(departed_,
                [this](const auto& entry) { return loop_.now() - entry.second.at > kDepartedFor; });
}

void NodeCache::recount(const NodeView* before, const NodeView* after) {
  if (before != nullptr && after != nullptr && Census::counts_alike(*before, *after)) {
    return;
  }
  if (before != nullptr) {
    census_.remove(*before);
  }
  if (after != nullptr) {
    census_.add(*after);
  }
  listener_.census_changed(census_);
}

void NodeCache::stamp(Entry& entry) {
  entry.expires = std::nullopt;
  if (expiry_ > Duration::zero() && is_down(entry.view.readiness)) {
    entry.expires = loop_.now() + expiry_;
    expiries_.emplace(*entry.expires, entry.view.name);
  }
}

void NodeCache::unstamp(const Entry& entry) {
  if (entry.expires) {
    expiries_.erase({*entry.expires, entry.view.name});
  }
}

void NodeCache::schedule_expiry() {
  expiry_timer_.cancel();
  if (!expiries_.empty()) {
    expiry_timer_ = loop_.after(expiries_.begin()->first - loop_.now(), [this] { expire_due(); });
  }
}

void NodeCache::expire_due() {
  std::vector<NodeView> due;
  while (!expiries_.empty() && expiries_.begin()->first <= loop_.now()) {
    Entry& entry = entries_.at(expiries_.begin()->second);
    unstamp(entry);
    stamp(entry);
    entry.joining = false;
    due.push_back(entry.view);
  }
  schedule_expiry();
  for (const NodeView& view : due) {
    listener_.look_at(view, Look::Expired);
  }
}

void NodeCache::look_again(Look why) {
  std::vector<NodeView> down;  // the listener may change what we believe
  for (const auto& [name, entry] : entries_) {
    if (is_down(entry.view.readiness) && !entry.joining) {
      down.push_back(entry.view);
    }
  }
  forget_departed();
  for (const auto& [name, departed] : departed_) {
    down.push_back(departed.view);
  }
  for (const NodeView& view : down) {
    listener_.look_at(view, why);
  }
}

bool NodeCache::look_again_at(const NodeName& name, Look why) {
  const auto found = entries_.find(name);
  if (found == entries_.end() || !is_down(found->second.view.readiness) || found->second.joining) {
    return false;
  }
  const NodeView view = found->second.view;  // the listener may change what we believe
  listener_.look_at(view, why);
  return true;
}

const NodeView* NodeCache::find(const NodeName& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : &found->second.view;
}

void NodeCache::each(const std::function<void(const NodeView&)>& tell) const {
  for (const auto& [name, entry] : entries_) {
    tell(entry.view);
  }
}

NodeCounts NodeCache::counts() const {
  NodeCounts counts;
  for (const auto& [name, entry] : entries_) {
    const NodeView& view = entry.view;
    const bool ready = view.readiness == Readiness::True;
    ++counts.total;
    counts.ready += ready ? 1 : 0;
    counts.schedulable += ready && !view.unschedulable && !view.keeps_replacements_off ? 1 : 0;
  }
  return counts;
}

}  // namespace moonfence::cluster
