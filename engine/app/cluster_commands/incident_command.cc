#include <algorithm>

#include "app/cluster_commands/client_command.h"
#include "app/cluster_commands/incident_records.h"
#include "app/cluster_commands/incident_text.h"
#include "base/text.h"

namespace moonfence::app {

using nlohmann::ordered_json;

Result<StoredIncidents> read_incidents(ClientGround& ground, const std::string& selector) {
  const auto list =
      ground.client.get("/api/v1/namespaces/" + ground.engine_namespace + "/configmaps",
                        {{"labelSelector", selector}});
  if (!list) {
    return failure(list.error());
  }
  StoredIncidents stored;
  const auto items = list->find("items");
  if (items == list->end() || !items->is_array()) {
    return failure(Error::Kind::Malformed, "the API server's list of ConfigMaps has no items");
  }
  for (const nlohmann::json& item : *items) {
    const nlohmann::json::json_pointer text("/data/record.json");
    const nlohmann::json::json_pointer name("/metadata/name");
    const std::string label = item.contains(name) && item.at(name).is_string()
                                  ? item.at(name).get<std::string>()
                                  : std::string("?");
    if (!item.contains(text) || !item.at(text).is_string()) {
      stored.faults.push_back("ConfigMap " + escaped(label, 256) + " has no record.json");
      continue;
    }
    const std::string raw = item.at(text).get<std::string>();
    auto record = fence::parse_record(raw);
    if (!record) {
      stored.faults.push_back("ConfigMap " + escaped(label, 256) + ": " + record.error().message());
      continue;
    }
    stored.records.push_back(*std::move(record));
    stored.documents.push_back(ordered_json::parse(raw, nullptr, /*allow_exceptions=*/false));
  }
  return stored;
}

ClientOutput list_incidents(const ClientOptions& options, ClientGround& ground) {
  const auto stored = read_incidents(ground, "moonfence.io/incident");
  if (!stored) {
    return refused(ClientExit::Failed, stored.error());
  }
  ClientOutput output;
  for (const std::string& fault : stored->faults) {
    output.err += "note: " + fault + "\n";
  }
  if (options.form() != OutputForm::Table) {
    output.out =
        document_text({{"kind", "IncidentList"}, {"items", stored->documents}}, options.form());
  } else if (stored->records.empty()) {
    output.err += "No incidents are recorded in namespace " + ground.engine_namespace +
                  "; -n names another one. Incidents that deleted nothing have no record.\n";
  } else {
    output.out = incidents_table(stored->records);
  }
  return output;
}

ClientOutput show_incident(const ClientOptions& options, ClientGround& ground) {
  const auto stored = read_incidents(ground, "moonfence.io/incident");
  if (!stored) {
    return refused(ClientExit::Failed, stored.error());
  }
  std::string id = options.names.front();
  constexpr std::string_view kPrefix = "moonfence-incident-";
  id = id.starts_with(kPrefix) ? id.substr(kPrefix.size()) : id;
  const auto found = std::find_if(stored->records.begin(), stored->records.end(),
                                  [&id](const auto& record) { return record.id.text() == id; });
  if (found == stored->records.end()) {
    return refused(Error{.kind = Error::Kind::NotFound,
                         .text = "no record of incident " + escaped(id, 64) + " in namespace " +
                                 ground.engine_namespace,
                         .hint = "`moonfence incidents` lists them; one that deleted nothing has "
                                 "none, the log and the audit have it"});
  }
  const auto index = static_cast<std::size_t>(found - stored->records.begin());
  return {.code = ClientExit::Ok,
          .out = options.form() == OutputForm::Table
                     ? incident_text(*found)
                     : document_text(stored->documents[index], options.form()),
          .err = {}};
}

}  // namespace moonfence::app
