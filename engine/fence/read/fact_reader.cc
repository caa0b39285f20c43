#include "fence/read/fact_reader.h"

#include <optional>
#include <string_view>
#include <utility>

#include "kube/objects/decode.h"
#include "kube/text/json.h"
#include "kube/wire/url.h"
#include "policy/input/pod_facts.h"
#include "policy/input/translated.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;
using Body = Lookups::Body;

// A chain of owners that is longer leads in a circle.
constexpr int kLongestChain = 8;

// Items of a list lack the kind by which policy/input/pod_facts tells objects apart.
Body with_kind(const json& item, std::string_view kind) {
  json object = item;
  object["kind"] = kind;
  return std::make_shared<const json>(std::move(object));
}

std::string key_of_attached(const std::string& node, const std::string& volume) {
  return node + "/" + volume;
}

template <class Each>
void for_each_item(const json& list, Each each) {
  const auto items = list.is_object() ? list.find("items") : list.end();
  if (list.is_object() && items != list.end() && items->is_array()) {
    for (const json& item : *items) {
      if (item.is_object()) {
        each(item);
      }
    }
  }
}

// Images and addresses are most of a Node object and no matter of placement.
Body reduced_node(const json& item) {
  json node = {{"kind", "Node"}, {"metadata", json::object()}};
  for (const char* key : {"name", "labels"}) {
    if (item.contains("metadata") && item["metadata"].contains(key)) {
      node["metadata"][key] = item["metadata"][key];
    }
  }
  for (const char* key : {"taints", "unschedulable"}) {
    if (item.contains("spec") && item["spec"].contains(key)) {
      node["spec"][key] = item["spec"][key];
    }
  }
  if (item.contains("status") && item["status"].contains("conditions")) {
    node["status"]["conditions"] = item["status"]["conditions"];
  }
  return std::make_shared<const json>(std::move(node));
}

// The collection of an owner that this engine may read; "" for others, which are roots: a kind of
// that name in another group is something else.
std::string_view collection_of(const json& owner) {
  const std::string kind = kube::text_at(owner, "/kind");
  if (!policy::may_be_owned(kube::text_at(owner, "/apiVersion"), kind)) {
    return {};
  }
  return kind == "Job" ? "jobs" : "replicasets";
}

Result<kube::Lease> lease_in(const Result<Body>& found) {
  if (!found) {
    return failure(found.error());
  }
  if (*found == nullptr) {
    return failure(Error{.kind = Error::Kind::NotFound, .text = "it does not exist"});
  }
  return kube::decode_lease(**found);
}

}  // namespace

std::string Gathered::missing_for(const policy::Policy& policy) const {
  if (!missing.empty() && policy.needs() != policy::Needs{}) {
    return missing;
  }
  if (!policy.fetches()) {
    return {};
  }
  const auto found = fetched.find(&policy);
  return found == fetched.end() ? "nothing was fetched; " + missing : found->second.missing;
}

policy::PodFacts Gathered::facts_for(const policy::Policy& policy) const {
  policy::PodFacts known = facts;
  if (const auto found = fetched.find(&policy); found != fetched.end()) {
    known.fetched = found->second.answers;
  }
  return known;
}

// One pod whose facts are being gathered. Ends when nobody holds it any more: every read that is
// under way does.
struct FactReader::Job {
  Job(const kube::Pod& which, Wants wanted, Done told, Moment began)
      : pod(which), wants(std::move(wanted)), done(std::move(told)) {
    gathered.began = began;
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  void lacks(const Error& error) {
    if (gathered.missing.empty()) {
      gathered.missing = error.message();
    }
  }
  void lacks_volume(const Error& error) {
    lacks(error);
    gathered.volumes_missing = error.message();
  }
  const kube::Pod pod;
  const Wants wants;
  Done done;
  std::size_t open = 1;  // steps that have not ended
  bool facts_known = false;
  policy::Objects objects;
  Gathered gathered;
};

void FactReader::gather(const kube::Pod& pod, Wants wants, Done done) {
  const auto job = std::make_shared<Job>(pod, std::move(wants), std::move(done), began_);
  const policy::Needs& needs = job->wants.needs;
  const bool has_claims = !policy::claims_of(*pod.raw).empty();
  if (has_claims && (needs.volumes || needs.placement)) {
    find_claims(job);
  }
  if (has_claims && needs.siblings) {
    find_siblings(job);
  }
  if (needs.placement) {
    find_nodes(job);
  }
  if (needs.root_owner) {
    follow_owner(job, *pod.raw, 0);
  }
  for (const Wants::NodeFetcher& fetcher : job->wants.node_fetchers) {
    fetch_for_node(job, fetcher);
  }
  close(job);
}

void FactReader::fetch_for_node(const std::shared_ptr<Job>& job,
                                const Wants::NodeFetcher& fetcher) {
  const policy::Policy* by = fetcher.policy.get();
  const auto [entry, is_new] = node_answers_.try_emplace(by);
  NodeAnswers& answers = entry->second;
  if (answers.found != nullptr) {
    job->gathered.node_fetched.insert_or_assign(by, answers.found);
    return;
  }
  ++job->open;
  answers.waiting.push_back([this, job, by, &answers] {
    job->gathered.node_fetched.insert_or_assign(by, answers.found);
    close(job);
  });
  if (!is_new) {
    return;
  }
  policy_fetch_.ask(
      [fetcher](const auto& got) {
        return fetcher.policy->plan_node_fetch(fetcher.node, fetcher.facts, got);
      },
      [&answers](Fetched found) {
        answers.found = std::make_shared<const Fetched>(std::move(found));
        for (const auto& told : std::exchange(answers.waiting, {})) {
          told();
        }
      });
}

// One step of the job has ended. After the last the facts are made, and what policies fetch by them
// is read.
void FactReader::close(const std::shared_ptr<Job>& job) {
  if (--job->open > 0) {
    return;
  }
  if (!job->facts_known) {
    job->facts_known = true;
    std::map<std::string, std::string> gaps;  // of fixtures: here what is not there does not exist
    job->gathered.facts = policy::facts_of(*job->pod.raw, job->objects, job->wants.needs, gaps);
    job->open = 1;
    if (job->gathered.missing.empty()) {
      job->open += job->wants.fetchers.size();
      for (const auto& policy : job->wants.fetchers) {
        policy_fetch_.fetch(
            *policy, job->pod, job->gathered.facts, [this, job, policy](Fetched found) {
              job->gathered.fetched.insert_or_assign(policy.get(), std::move(found));
              close(job);
            });
      }
    }
    close(job);
    return;
  }
  job->done(std::move(job->gathered));
}

// One by itself is read from etcd at once; a list of its name waits until the server's cache has
// caught up with what is written meanwhile.
void FactReader::find_claims(const std::shared_ptr<Job>& job) {
  const auto path = kube::claims_path(job->pod.ref.space);
  if (!path) {
    job->lacks_volume(path.error());
    return;
  }
  const Lookups::Collection claims = {
      .path = *path, .kind = "PersistentVolumeClaim", .may_be_only_listed = true};
  for (const auto& [volume, claim] : policy::claims_of(*job->pod.raw)) {
    const auto segment = kube::path_segment(claim);
    if (!segment) {
      continue;  // Kubernetes lets a pod name what no claim can be called: there is none
    }
    ++job->open;
    lookups_.get_of(claims, claim, *path + "/" + *segment, [this, job](const Result<Body>& found) {
      if (!found) {
        job->lacks_volume(found.error());
      } else if (*found != nullptr) {
        follow_claim(job, *found);
      }
      close(job);
    });
  }
}

void FactReader::follow_claim(const std::shared_ptr<Job>& job, const Body& claim) {
  job->objects.push_back(claim);
  const std::string volume = kube::text_at(*claim, "/spec/volumeName");
  if (volume.empty()) {
    return;
  }
  ++job->open;
  lookups_.get_of(kVolumes, volume, kube::volume_path(volume),
                  [this, job, volume](const Result<Body>& found) {
                    if (!found) {
                      job->lacks_volume(found.error());
                    } else if (*found != nullptr) {
                      follow_volume(job, *found);
                    } else {
                      find_by_volume(job, volume);
                    }
                    close(job);
                  });
}

void FactReader::follow_volume(const std::shared_ptr<Job>& job, const Body& volume) {
  job->objects.push_back(volume);
  const std::string driver = kube::text_at(*volume, "/spec/csi/driver");
  const std::string handle = kube::text_at(*volume, "/spec/csi/volumeHandle");
  if (policy::is_translated(volume.get())) {
    find_attacher(job, policy::csi_driver_of(volume.get()));
    find_by_volume(job, kube::text_at(*volume, "/metadata/name"));
    return;
  }
  if (driver.empty() || handle.empty()) {
    return;
  }
  find_attacher(job, driver);
  ++job->open;
  const std::string name = policy::attachment_name(handle, driver, job->pod.node.text());
  lookups_.get_of(kAttachments, name, kube::attachment_path(name),
                  [this, job](const Result<Body>& found) {
                    if (!found) {
                      job->lacks_volume(found.error());
                    } else if (*found != nullptr) {
                      take_attachment(*job, *found);
                    }
                    close(job);
                  });
}

void FactReader::take_attachment(Job& job, const Body& object) {
  auto attachment = kube::decode_attachment(*object);
  if (attachment) {
    job.objects.push_back(object);
    job.gathered.attachments.insert_or_assign(attachment->name, *attachment);
  } else {
    job.lacks_volume(attachment.error());
  }
}

// Nobody but Kubernetes knows the handle in the name of a translated volume's attachment, and
// nobody at all that of a volume that is missing: it is looked for by its volume.
void FactReader::find_by_volume(const std::shared_ptr<Job>& job, const std::string& volume) {
  ++job->open;
  const std::string key = key_of_attached(job->pod.node.text(), volume);
  lookups_.list(std::string(kAttachments.path), {}, [this, job, key](const Result<Body>& list) {
    if (!list || *list == nullptr) {
      job->lacks_volume(
          list ? Error{.kind = Error::Kind::NotFound, .text = "volume attachments cannot be listed"}
               : list.error());
    } else {
      if (!attached_) {
        attached_.emplace();
        for_each_item(**list, [this](const json& item) {
          attached_->emplace(
              key_of_attached(kube::text_at(item, "/spec/nodeName"),
                              kube::text_at(item, "/spec/source/persistentVolumeName")),
              with_kind(item, kAttachments.kind));
        });
      }
      const auto [begin, end] = attached_->equal_range(key);
      for (auto found = begin; found != end; ++found) {
        take_attachment(*job, found->second);
      }
    }
    close(job);
  });
}

void FactReader::find_attacher(const std::shared_ptr<Job>& job, const std::string& driver) {
  const auto named = attachers_.find(driver);
  if (named == attachers_.end()) {
    return;
  }
  ++job->open;
  lookups_.get(kube::lease_path(named->second), [this, job, driver](const Result<Body>& found) {
    job->gathered.attachers.insert_or_assign(driver, lease_in(found));
    close(job);
  });
}

void FactReader::follow_owner(const std::shared_ptr<Job>& job, const json& object, int depth) {
  const json* owner = policy::controller_of(&object);
  if (owner == nullptr || depth >= kLongestChain) {
    return;
  }
  const std::string_view collection = collection_of(*owner);
  if (collection.empty()) {
    return;
  }
  ++job->open;
  const auto path = kube::object_path(kube::text_at(*owner, "/apiVersion"), collection,
                                      job->pod.ref.space, kube::text_at(*owner, "/name"));
  lookups_.get(path, [this, job, depth](const Result<Body>& found) {
    if (!found) {
      job->lacks(found.error());
    } else if (*found != nullptr) {
      job->objects.push_back(*found);
      follow_owner(job, **found, depth + 1);
    }
    close(job);
  });
}

void FactReader::find_siblings(const std::shared_ptr<Job>& job) {
  const Namespace space = job->pod.ref.space;
  ++job->open;
  lookups_.list(kube::pods_path(space), {}, [this, job, space](const Result<Body>& list) {
    if (!list) {
      job->lacks(list.error());
    } else if (*list != nullptr) {
      const auto [users, is_new] = users_.try_emplace(space);
      if (is_new) {
        for_each_item(**list, [&users = users->second](const json& item) {
          const Body pod = policy::claims_of(item).empty() ? Body() : with_kind(item, "Pod");
          for (const auto& [name, claim] : policy::claims_of(item)) {
            users.emplace(claim, pod);
          }
        });
      }
      for (const auto& [name, claim] : policy::claims_of(*job->pod.raw)) {
        const auto [begin, end] = users->second.equal_range(claim);
        for (auto user = begin; user != end; ++user) {
          job->objects.push_back(user->second);
        }
      }
    }
    close(job);
  });
  ++job->open;
  lookups_.list(kube::events_path(space), {{"fieldSelector", "reason=FailedAttachVolume"}},
                [this, job, space](const Result<Body>& list) {
                  if (!list) {
                    job->lacks(list.error());
                  } else if (*list != nullptr) {
                    const auto [events, is_new] = events_.try_emplace(space);
                    if (is_new) {
                      for_each_item(**list, [&events = events->second](const json& item) {
                        events.push_back(with_kind(item, "Event"));
                      });
                    }
                    job->objects.insert(job->objects.end(), events->second.begin(),
                                        events->second.end());
                  }
                  close(job);
                });
}

void FactReader::find_nodes(const std::shared_ptr<Job>& job) {
  ++job->open;
  lookups_.list(std::string("/api/v1/nodes"), {}, [this, job](const Result<Body>& list) {
    if (!list || *list == nullptr) {
      job->lacks(list ? Error{.kind = Error::Kind::NotFound, .text = "no nodes can be listed"}
                      : list.error());
    } else {
      if (!nodes_) {
        nodes_.emplace();
        for_each_item(**list, [this](const json& item) { nodes_->push_back(reduced_node(item)); });
      }
      job->objects.insert(job->objects.end(), nodes_->begin(), nodes_->end());
    }
    close(job);
  });
}

}  // namespace moonfence::fence
