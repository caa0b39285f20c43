#include "app/status/situation.h"

#include <algorithm>
#include <string>
#include <utility>

#include "app/status/status_words.h"

namespace moonfence::app {

using nlohmann::ordered_json;

namespace {

ordered_json incident_json(const StatusSnapshot& snapshot, const StatusSnapshot::Stand& stand) {
  const fence::IncidentStatus& incident_status = stand.incident_status;
  ordered_json incident = {{"id", incident_status.incident.text()},
                           {"node", incident_status.node.text()},
                           {"opened", format_rfc3339(incident_status.opened)},
                           {"openedFor", audit::code(incident_status.opened_for)}};
  put_stand(incident, stand);
  const auto story = std::find_if(snapshot.under_way.begin(), snapshot.under_way.end(),
                                  [&incident_status](const IncidentBook::Story& each) {
                                    return each->id == incident_status.incident;
                                  });
  if (story != snapshot.under_way.end()) {  // else it is one of too many to be remembered
    incident["counts"] = counts_json(count_pods(**story));
  }
  return incident;
}

}  // namespace

void put_stand(ordered_json& incident, const StatusSnapshot::Stand& stand) {
  incident["state"] = fence::to_string(stand.incident_status.state);
  if (stand.incident_status.reason) {
    incident["reason"] = audit::code(*stand.incident_status.reason);
  }
  if (!stand.incident_status.text.empty()) {
    incident["text"] = stand.incident_status.text;
  }
  if (stand.next) {
    incident["nextLook"] = format_rfc3339(*stand.next);
  }
}

ordered_json counts_json(const PodCounts& counts) {
  return {{"deleted", counts.deleted},
          {"wouldBeDeleted", counts.would_delete},
          {"notDone", counts.not_done},
          {"waiting", counts.waiting},
          {"leftAlone", counts.left_alone}};
}

ordered_json headline_json(const Headline& headline) {
  ordered_json notices = ordered_json::array();
  for (const Notice& notice : headline.notices) {
    ordered_json json = {{"tone", class_of(notice.tone).text()}, {"text", notice.text}};
    if (!notice.hint.empty()) {
      json["hint"] = notice.hint;
    }
    notices.push_back(std::move(json));
  }
  return {{"tone", class_of(headline.tone).text()},
          {"title", headline.title},
          {"text", headline.text},
          {"notices", std::move(notices)}};
}

ordered_json brake_json(const StatusSnapshot::Guard& guard) {
  return {{"tooManyDown", guard.too_many_down},
          {"workers", guard.workers},
          {"workersDown", guard.workers_down},
          {"workersDownNames", guard.down_names}};
}

ordered_json kept_json(const StatusSnapshot::Guard& guard) {
  ordered_json kept = ordered_json::array();
  for (const auto& [node, why] : guard.kept) {
    kept.push_back({{"node", node.text()}, {"why", why}});
  }
  return kept;
}

ordered_json sources_json(const StatusSnapshot::Guard& guard) {
  ordered_json sources = ordered_json::array();
  for (const fence::SourceState& source : guard.sources) {
    if (source.fault.empty() && source.strangers.empty()) {
      continue;
    }
    ordered_json json = {{"policy", source.policy}};
    if (!source.fault.empty()) {
      json["unreadable"] = source.fault;
    }
    for (const NodeName& name : source.strangers) {
      json["noNodes"].push_back(name.text());
    }
    sources.push_back(std::move(json));
  }
  return sources;
}

namespace {

ordered_json machines_json(const StatusSnapshot::Detection& detection) {
  ordered_json machines = ordered_json::array();
  for (const StatusSnapshot::Machine& machine : detection.machines) {
    ordered_json told = {{"node", machine.history.node.text()}};
    if (machine.history.last_sign) {
      told["lastSign"] = format_rfc3339(*machine.history.last_sign);
    }
    if (machine.is_confirmed) {
      told["confirmed"] = true;
    }
    for (const auto& change : machine.history.changes) {
      told["changes"].push_back(
          {{"at", format_rfc3339(change.at)}, {"kernel", cluster::to_string(change.kernel)}});
    }
    machines.push_back(std::move(told));
  }
  return machines;
}

}  // namespace

ordered_json detection_json(const StatusSnapshot& snapshot) {
  if (!snapshot.detection) {
    return nullptr;
  }
  const cluster::Detection::Counts& counts = snapshot.detection->counts;
  ordered_json silences;
  for (std::size_t i = 0; i < cluster::Silences::kAges.size(); ++i) {
    silences[format_duration(cluster::Silences::kAges.at(i))] = snapshot.detection->silences.at(i);
  }
  return {{"since", format_rfc3339(snapshot.replica.started)},
          {"answers", counts.answers},
          {"unsure", counts.unsure},
          {"silent", counts.silent},
          {"notObservable", counts.not_observable},
          {"silencesOf", std::move(silences)},
          {"otherReplicas",
           {{"asked", snapshot.detection->witnesses.replicas},
            {"failing", snapshot.detection->witnesses.failing},
            {"confirmSilent", snapshot.detection->witnesses.confirmed},
            {"hearSilent", snapshot.detection->witnesses.heard}}},
          {"machines", machines_json(*snapshot.detection)},
          {"machinesLeftOut", snapshot.detection->machines_cut}};
}

ordered_json fencers_json(const StatusSnapshot& snapshot) {
  if (!snapshot.fencers) {
    return nullptr;
  }
  ordered_json broken = ordered_json::array();
  for (const fence::FencerCheck::Broken& each : snapshot.fencers->broken) {
    broken.push_back(
        {{"node", each.node.text()}, {"since", format_rfc3339(each.since)}, {"why", each.why}});
  }
  const fence::FencerCounts& counts = snapshot.fencers->counts;
  return {{"works", counts.works},
          {"broken", counts.broken},
          {"none", counts.none},
          {"nodes", std::move(broken)},
          {"nodesLeftOut", snapshot.fencers->broken_cut}};
}

ordered_json situation_of(const StatusSnapshot& snapshot, WallTime now) {
  ordered_json situation = {{"state", headline_json(headline_of(snapshot, now))}};
  if (!snapshot.replica.witness_address.empty()) {
    situation["witness"] = {{"address", snapshot.replica.witness_address},
                            {"publicKey", snapshot.replica.witness_key}};
  }
  if (!snapshot.replica.leads) {
    return situation;
  }
  ordered_json incidents = ordered_json::array();
  for (const StatusSnapshot::Stand& stand : snapshot.stands) {
    if (incidents.size() == kIncidentsInSituation) {
      break;
    }
    incidents.push_back(incident_json(snapshot, stand));
  }
  // Whatever a plan comes to: nothing is deleted before that is over.
  situation["frozen"] = !snapshot.guard.doubts.empty() || snapshot.guard.too_many_down;
  situation["brake"] = brake_json(snapshot.guard);
  situation["brake"]["limit"] = snapshot.guard.max_down;
  situation["taintsKept"] = kept_json(snapshot.guard);
  situation["healthSources"] = sources_json(snapshot.guard);
  if (snapshot.detection) {
    situation["detection"] = detection_json(snapshot);
  }
  if (snapshot.fencers) {
    situation["fencers"] = fencers_json(snapshot);
  }
  situation["openIncidents"] = snapshot.stands.size();
  situation["incidents"] = std::move(incidents);
  return situation;
}

ordered_json without_times(ordered_json situation) {
  for (ordered_json& incident : situation["incidents"]) {
    incident.erase("nextLook");
  }
  situation.erase("detection");
  return situation;
}

}  // namespace moonfence::app
