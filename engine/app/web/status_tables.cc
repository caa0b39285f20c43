#include "app/web/status_tables.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "app/status/machine_strip.h"
#include "app/status/node_pick.h"
#include "app/status/status_words.h"
#include "base/text.h"

namespace moonfence::app {
namespace {

using State = policy::PolicyStatus::State;

std::pair<Tone, std::string_view> state_of(const NodeStatus& node) {
  if (node.called_failed) {
    return {Tone::Alarm, "failed, says its health source"};
  }
  switch (node.view.readiness) {
    case cluster::Readiness::True:
      return {Tone::Good, "Ready"};
    case cluster::Readiness::False:
      return {Tone::Alarm, "not Ready"};
    case cluster::Readiness::Unknown:
      return {Tone::Alarm, "silent"};
    case cluster::Readiness::Missing:
      return {Tone::Alarm, "without Ready"};
    case cluster::Readiness::Failed:
      return {Tone::Alarm, "failed"};
    case cluster::Readiness::Gone:
      break;
  }
  return {Tone::Neutral, "gone"};
}

std::pair<Tone, std::string_view> machine_state(cluster::Kernel kernel) {
  switch (kernel) {
    case cluster::Kernel::Answers:
      return {Tone::Good, "answers"};
    case cluster::Kernel::Unsure:
      return {Tone::Waiting, "unsure"};
    case cluster::Kernel::Silent:
      return {Tone::Alarm, "silent"};
    case cluster::Kernel::NotObservable:
      break;
  }
  return {Tone::Neutral, "not observable"};
}

Html remarks(const StatusView& view, const NodeStatus& node) {
  std::vector<Html> all;
  for (const IncidentBook::Story& story : view.snapshot.under_way) {
    if (story->node == node.view.name) {
      Html link;
      link << "<a class=\"id\" href=\"" << view.root << "incidents/" << story->id.text()
           << "\">incident " << story->id.text() << "</a>";
      all.push_back(link);
    }
  }
  const auto remark = [&all](bool applies, Markup text) {
    if (applies) {
      Html html;
      html << text;
      all.push_back(html);
    }
  };
  remark(node.view.control_plane, "control plane");
  remark(node.view.unschedulable, "cordoned");
  remark(node.view.fenced && !node.view.fence_mark.empty(), "fenced by us");
  remark(node.view.fenced && node.view.fence_mark.empty(), "tainted moonfence.io/fenced by others");
  remark(!node.view.silent_mark.empty(), "silent: tainted by us");
  remark(node.view.keeps_replacements_off && !node.view.unschedulable && !node.view.fenced,
         "tainted NoSchedule");
  Html html;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0) {
      html << " · ";
    }
    html << all[i];
  }
  return html;
}

void nodes_table(Html& html, const StatusView& view, std::span<const NodeStatus> nodes,
                 const Html& caption) {
  html << "<table>\n<caption>" << caption
       << "</caption>\n<thead><tr><th scope=\"col\">Node</th><th scope=\"col\">State</th><th "
          "scope=\"col\">Since</th><th scope=\"col\">Zone</th><th scope=\"col\">Remarks</th></tr>"
          "</thead>\n<tbody>\n";
  for (const NodeStatus& node : nodes) {
    const auto [tone, word] = state_of(node);
    html << "<tr><th scope=\"row\" data-label=\"Node\"><code>" << node.view.name.text()
         << "</code></th><td data-label=\"State\">" << badge(tone, word)
         << "</td><td data-label=\"Since\">";
    if (node.view.since) {
      html << aged_time_html(*node.view.since, view.now);
    }
    html << "</td><td data-label=\"Zone\">" << node.view.zone << "</td><td data-label=\"Remarks\">"
         << remarks(view, node) << "</td></tr>\n";
  }
  html << "</tbody>\n</table>\n";
}

Tone tone_of(State state) {
  switch (state) {
    case State::Active:
      return Tone::Good;
    case State::Observe:
      return Tone::Waiting;
    case State::Off:
      return Tone::Neutral;
    case State::Stale:
      return Tone::Warning;
    case State::Rejected:
    case State::Failing:
      break;
  }
  return Tone::Alarm;
}

void digest(Html& html, const std::string& hex) {
  if (hex.empty()) {
    html << "<span class=\"muted\">nothing runs</span>";
    return;
  }
  html << "<code title=\"" << hex << "\">" << hex.substr(0, 12) << "</code>";
}

void reload_result(Html& html, const StatusView& view) {
  const policy::ReloadReport& report = view.snapshot.policies;
  if (!view.snapshot.policy_file.empty()) {
    html << "<p>One file, <code>" << view.snapshot.policy_file
         << "</code>, given by <code>--policy</code>; it is not reloaded.</p>\n";
    return;
  }
  if (report.observed_at == WallTime{}) {
    html << "<p class=\"none\">The policies were not read yet.</p>\n";
    return;
  }
  const bool sound =
      report.faults.empty() &&
      std::none_of(report.policies.begin(), report.policies.end(),
                   [](const policy::PolicyStatus& policy) { return policy.error.has_value(); });
  html << "<p>Last reload " << aged_time_html(report.observed_at, view.now) << ": "
       << (sound ? badge(Tone::Good, "accepted")
                 : badge(Tone::Alarm, "rejected, in part or whole"));
  if (!report.resource_version.empty()) {
    html << " · version <code>" << report.resource_version << "</code>";
  }
  html << " · set ";
  digest(html, report.active_set);
  html << "</p>\n";
  if (!report.faults.empty()) {
    html << "<ul class=\"faults\">\n";
    for (const std::string& fault : report.faults) {
      html << "<li>" << badge(Tone::Alarm, "fault") << " " << fault << "</li>\n";
    }
    html << "</ul>\n";
  }
  if (!report.unknown_keys.empty()) {
    html << "<p>" << badge(Tone::Warning, "ignored")
         << " keys of the ConfigMap: " << joined(report.unknown_keys, ", ") << "</p>\n";
  }
}

void policy_row(Html& html, const StatusView& view, const policy::PolicyStatus& policy) {
  const auto version = view.snapshot.versions.find(policy.digest);
  html << "<tr><th scope=\"row\" data-label=\"Policy\"><code>" << policy.name << "</code>";
  if (version != view.snapshot.versions.end()) {
    html << " <span class=\"muted\">" << version->second << "</span>";
  }
  html << "</th><td data-label=\"State\">" << badge(tone_of(policy.state), to_string(policy.state));
  if (policy.holds) {
    html << " <span class=\"muted\">its scope is held</span>";
  }
  if (policy.error) {
    html << " <span class=\"said\">";
    if (policy.error->line > 0) {
      html << "line " << policy.error->line << ": ";
    }
    html << policy.error->text() << "</span>";
    if (!policy.error->quote.empty()) {
      html << "<pre>" << policy.error->quote << "</pre>";
    }
  }
  for (const Namespace& space : policy.absent) {
    html << " <span class=\"said\">namespace " << space.text() << " does not exist</span>";
  }
  for (const std::string& warning : policy.warnings) {
    html << " <span class=\"said\">" << warning << "</span>";
  }
  html << "</td><td data-label=\"Mode\">" << policy::to_string(policy.mode)
       << policy::which_nodes(policy::to_string(policy.act_on))
       << "</td><td data-label=\"Namespaces\">" << policy.namespaces
       << "</td><td data-label=\"Digest\">";
  digest(html, policy.digest);
  html << "</td><td data-label=\"Source\">" << policy.source << "</td><td data-label=\"Since\">"
       << aged_time_html(policy.since, view.now) << "</td></tr>\n";
}

void fact(Html& html, Markup term, const Html& value) {
  html << "<div><dt>" << term << "</dt><dd>" << value << "</dd></div>\n";
}

void fact(Html& html, Markup term, const std::string& value) {
  fact(html, term, Html() << value);
}

}  // namespace

Html machines_section(const StatusView& view) {
  Html html;
  if (!view.snapshot.detection || view.snapshot.detection->machines.empty()) {
    return html;
  }
  const StatusSnapshot::Detection& detection = *view.snapshot.detection;
  html << "<section aria-labelledby=\"machines\">\n<h2 id=\"machines\">Machines</h2>\n<table>\n"
          "<caption>Those that did not answer at some time in the last ten minutes, ten seconds a "
          "sign: . it answered, ? not known yet, x silent, - nobody could tell</caption>\n<thead>"
          "<tr><th scope=\"col\">Node</th><th scope=\"col\">Machine</th><th scope=\"col\">Since"
          "</th><th scope=\"col\">Last sign</th><th scope=\"col\">Ten minutes</th></tr></thead>\n"
          "<tbody>\n";
  for (const StatusSnapshot::Machine& machine : detection.machines) {
    const auto& changes = machine.history.changes;
    const auto [tone, word] = machine_state(changes.back().kernel);
    html << "<tr><th scope=\"row\" data-label=\"Node\"><code>" << machine.history.node.text()
         << "</code></th><td data-label=\"Machine\">" << badge(tone, word);
    if (machine.is_confirmed) {
      html << " <span class=\"said\">the other replica does not hear it either</span>";
    }
    html << "</td><td data-label=\"Since\">" << aged_time_html(changes.back().at, view.now)
         << "</td><td data-label=\"Last sign\">";
    if (machine.history.last_sign) {
      html << aged_time_html(*machine.history.last_sign, view.now);
    }
    html << "</td><td data-label=\"Ten minutes\"><code>" << strip_of(changes, view.now)
         << "</code></td></tr>\n";
  }
  html << "</tbody>\n</table>\n";
  if (detection.machines_cut > 0) {
    html << "<p class=\"more\">and " << detection.machines_cut << " more.</p>\n";
  }
  html << "</section>\n";
  return html;
}

Html fencers_section(const StatusView& view) {
  Html html;
  if (!view.snapshot.fencers) {
    return html;
  }
  const fence::FencerCheck::Told& fencers = *view.snapshot.fencers;
  html << "<section aria-labelledby=\"fencers\">\n<h2 id=\"fencers\">Fencers</h2>\n<p>"
       << (fencers.counts.all() == 0 ? std::string("No node was asked about yet.")
                                     : "Nodes: " + fencers.counts.text() + ".")
       << "</p>\n";
  if (!fencers.broken.empty()) {
    html << "<table>\n<caption>Those with a fencer that has failed twice in a row</caption>\n"
            "<thead><tr><th scope=\"col\">Node</th><th scope=\"col\">Since</th>"
            "<th scope=\"col\">Why</th></tr></thead>\n<tbody>\n";
    for (const fence::FencerCheck::Broken& broken : fencers.broken) {
      html << "<tr><th scope=\"row\" data-label=\"Node\"><code>" << broken.node.text()
           << "</code></th><td data-label=\"Since\">" << aged_time_html(broken.since, view.now)
           << "</td><td data-label=\"Why\">" << broken.why << "</td></tr>\n";
    }
    html << "</tbody>\n</table>\n";
  }
  if (fencers.broken_cut > 0) {
    html << "<p class=\"more\">and " << fencers.broken_cut << " more.</p>\n";
  }
  html << "</section>\n";
  return html;
}

Html nodes_section(const StatusView& view) {
  const StatusSnapshot& snapshot = view.snapshot;
  const auto first_plain =
      std::find_if(snapshot.nodes.begin(), snapshot.nodes.end(),
                   [](const NodeStatus& node) { return is_plain(node.view, node.called_failed); }) -
      snapshot.nodes.begin();
  const auto nodes = std::span(snapshot.nodes);
  const bool all = nodes.size() <= kNodesUnfolded;
  const auto shown = all ? nodes : nodes.first(static_cast<std::size_t>(first_plain));
  const auto folded = nodes.subspan(shown.size());
  Html counts;
  counts << snapshot.counts.ready << " of " << snapshot.counts.total << " Ready, "
         << snapshot.counts.schedulable << " schedulable";
  if (!all) {
    counts << "; those that are not simply Ready";
  }
  Html html;
  html << "<section aria-labelledby=\"nodes\">\n<h2 id=\"nodes\">Nodes</h2>\n";
  if (shown.empty()) {
    html << "<p>" << counts << ": none</p>\n";
  } else {
    nodes_table(html, view, shown, counts);
  }
  if (!folded.empty()) {
    html << "<details><summary>" << counted(folded.size(), "node") << " Ready</summary>\n";
    nodes_table(html, view, folded, Html() << "Ready nodes");
    html << "</details>\n";
  }
  if (snapshot.nodes_cut > 0) {
    html << "<p class=\"more\">and " << snapshot.nodes_cut
         << " more; those that are not simply Ready stand first.</p>\n";
  }
  html << "</section>\n";
  return html;
}

Html policies_section(const StatusView& view) {
  const policy::ReloadReport& report = view.snapshot.policies;
  Html html;
  html << "<section aria-labelledby=\"policies\">\n<h2 id=\"policies\">Policies</h2>\n";
  reload_result(html, view);
  if (report.policies.empty()) {
    html << "<p class=\"none\">No policy is bound: nothing is ever deleted.</p>\n";
  } else {
    html << "<table>\n<caption>Policies, in the order in which they decide</caption>\n<thead><tr>"
            "<th scope=\"col\">Policy</th><th scope=\"col\">State</th><th scope=\"col\">Mode</th>"
            "<th scope=\"col\">Namespaces</th><th scope=\"col\">Digest</th>"
            "<th scope=\"col\">Source</th><th scope=\"col\">Since</th></tr></thead>\n<tbody>\n";
    for (const policy::PolicyStatus& policy : report.policies) {
      policy_row(html, view, policy);
    }
    html << "</tbody>\n</table>\n";
  }
  html << "</section>\n";
  return html;
}

Html engine_section(const StatusView& view) {
  const StatusSnapshot::Guard& guard = view.snapshot.guard;
  const StatusSnapshot::Replica& replica = view.snapshot.replica;
  Html html;
  html << "<section aria-labelledby=\"engine\">\n<h2 id=\"engine\">Engine</h2>\n"
          "<dl class=\"facts\">\n";
  fact(html, "This replica", replica.instance);
  fact(html, "On node", replica.node.empty() ? std::string("not known") : replica.node);
  fact(html, "Running since", aged_time_html(replica.started, view.now));
  fact(html, "Lease",
       !replica.elects ? std::string("not used: the only replica")
       : replica.holder.empty()
           ? std::string("held by nobody")
           : "held by " + holder_name(replica.holder) + (replica.leads ? ", that is us" : ""));
  fact(html, "API server", replica.server);
  fact(html, "Workers newly down", guard.down_text + "; " + limit_text(guard.max_down));
  fact(html, "Nodes fenced at once",
       std::to_string(guard.being_fenced) + "; " + limit_text(guard.at_once));
  fact(html, "Nodes fenced lately", limit_text(guard.per_window) + " within " + guard.window);
  fact(html, "Incidents that wait", std::to_string(guard.waiting));
  fact(html, "Nodes with our taint", std::to_string(guard.fenced_nodes));
  fact(html, "Audit records lost", std::to_string(guard.audit_failures));
  html << "</dl>\n</section>\n";
  return html;
}

}  // namespace moonfence::app
