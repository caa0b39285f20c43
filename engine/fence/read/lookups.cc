#include "fence/read/lookups.h"

#include <utility>

#include "kube/wire/url.h"

namespace moonfence::fence {

void Lookups::get(const Result<std::string>& path, Done done) {
  if (Lookup* lookup = look_up(path, {}, std::move(done))) {
    queue_.push_back(lookup);
    pump();
  }
}

void Lookups::get_of(const Collection& collection, const std::string& name,
                     const Result<std::string>& path, Done done) {
  Lookup* lookup = look_up(path, {}, std::move(done));
  if (lookup == nullptr) {
    return;
  }
  Group& group = groups_[std::string(collection.path)];
  group.path = collection.path;
  group.kind = collection.kind;
  group.may_be_only_listed = collection.may_be_only_listed;
  lookup->group = &group;
  lookup->name = name;
  group.queue.push_back(lookup);
  pump();
}

void Lookups::list(const Result<std::string>& path, const kube::Query& query, Done done,
                   kube::Reader::ListForm form) {
  if (Lookup* lookup = look_up(path, query, std::move(done), form)) {
    lookup->is_list = true;
    queue_.push_back(lookup);
    pump();
  }
}

// Null when nothing new is to be read.
Lookups::Lookup* Lookups::look_up(const Result<std::string>& path, const kube::Query& query,
                                  Done done, kube::Reader::ListForm form) {
  if (!path) {
    done(failure(Error(path.error())));
    return nullptr;
  }
  const auto [entry, is_new] = lookups_.try_emplace(*path + "?" + kube::encoded_query(query) +
                                                    (form.metadata_only ? " metadata" : ""));
  Lookup& lookup = entry->second;
  if (lookup.answer) {
    done(*lookup.answer);
    return nullptr;
  }
  lookup.waiting.push_back(std::move(done));
  lookup.path = *path;
  lookup.query = query;
  lookup.form = form;
  return is_new ? &lookup : nullptr;
}

void Lookups::pump() {
  if (held_ > 0) {
    return;
  }
  while (!queue_.empty() && in_flight_ < kParallelReads) {
    Lookup& next = *queue_.front();
    queue_.pop_front();
    send(next);
  }
  for (auto& [path, group] : groups_) {
    pump(group);
  }
}

void Lookups::pump(Group& group) {
  if (group.list) {
    return;
  }
  if (group.queue.size() >= kListFrom && !group.given_up) {
    list(group);
    return;
  }
  while (!group.queue.empty() && in_flight_ < kParallelReads) {
    Lookup& next = *group.queue.front();
    group.queue.pop_front();
    send(next);
  }
}

void Lookups::send(Lookup& next) {
  ++in_flight_;
  const auto done = [this, &next](Result<kube::ApiReply> reply) {
    arrived(next, std::move(reply));
  };
  next.is_listed = next.group != nullptr && next.group->may_be_only_listed &&
                   reader_.is_only_listed(next.group->path);
  next.call = next.is_list            ? reader_.get_list(next.path, next.query, done, next.form)
              : next.is_listed        ? reader_.get_listed(next.group->path, next.name, done)
              : next.group != nullptr ? reader_.get_named(next.path, next.name, done)
                                      : reader_.get(next.path, done);
}

void Lookups::arrived(Lookup& lookup, Result<kube::ApiReply> reply) {
  --in_flight_;
  Result<Body> found = Body();
  if (reply) {
    if (lookup.group != nullptr && reply->body.is_object()) {
      reply->body["kind"] = lookup.group->kind;  // an item of a list lacks it
    }
    found = std::make_shared<const nlohmann::json>(std::move(reply->body));
  } else if (reply.error().kind == Error::Kind::Forbidden && lookup.group != nullptr &&
             lookup.group->may_be_only_listed && !lookup.is_listed) {
    reader_.only_list(lookup.group->path);
    send(lookup);
    return;
  } else if (reply.error().kind != Error::Kind::NotFound) {
    found =
        failure(std::move(reply.error())
                    .within("GET " + (lookup.is_listed ? lookup.group->path + " for " + lookup.name
                                                       : lookup.path)));
  }
  answer(lookup, std::move(found));
}

// Whoever is called may ask for more, or end us.
void Lookups::answer(Lookup& lookup, Result<Body> answer) {
  const Together together(*this);
  lookup.answer = std::move(answer);
  const std::vector<Done> waiting = std::exchange(lookup.waiting, {});
  for (const Done& done : waiting) {
    done(*lookup.answer);
  }
}

void Lookups::list(Group& group) {
  group.list = reader_.find(
      group.path, [&group] { return begin(group); },
      [this, &group](kube::FoundItems found, const Result<void>& outcome) {
        group.given_up = !outcome || !found.complete;
        listed(group, std::move(found));
      });
}

// Whoever asked until the answer begins is answered by it.
std::set<std::string> Lookups::begin(Group& group) {
  std::set<std::string> names;
  for (Lookup* lookup : std::exchange(group.queue, {})) {
    names.insert(lookup->name);
    group.looked_for.emplace(lookup->name, lookup);
  }
  return names;
}

void Lookups::listed(Group& group, kube::FoundItems found) {
  group.list.reset();
  std::vector<std::pair<Lookup*, Body>> told;
  for (const auto& [name, lookup] : std::exchange(group.looked_for, {})) {
    const auto item = found.items.find(name);
    if (item != found.items.end()) {
      item->second["kind"] = group.kind;
      told.emplace_back(lookup, std::make_shared<const nlohmann::json>(std::move(item->second)));
    } else if (found.complete) {
      told.emplace_back(lookup, Body());
    } else {
      group.queue.push_back(lookup);
    }
  }
  for (auto& [lookup, body] : told) {
    lookup->answer = body;  // whoever is called below may ask for another of them
  }
  const Together together(*this);
  for (auto& [lookup, body] : told) {
    answer(*lookup, std::move(body));
  }
}

}  // namespace moonfence::fence
