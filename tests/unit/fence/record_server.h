#pragma once

// The ConfigMaps of namespace `moonfence` behind a scripted API server, with what a record rests
// on: UIDs, versions that must match, labels.

#include <map>
#include <string>

#include <nlohmann/json.hpp>

#include "fence/record/incident_record.h"
#include "support/fake_http.h"

namespace moonfence::test {

class RecordServer {
 public:
  static constexpr const char* kAll = "/api/v1/namespaces/moonfence/configmaps";

  std::map<std::string, nlohmann::json> maps;  // by name
  // In place of the next writes' answers, one each; `done` says whether it is done all the same.
  struct Fault {
    FakeAnswer answer;
    bool done = false;
  };
  std::vector<Fault> faults;
  Duration delay{};  // of every write
  int writes = 0;

  explicit RecordServer(FakeHttp& http) {
    const std::string one = std::string(kAll) + "/*";
    http.on(port::Method::Get, one, [this](const FakeRequest& request) {
      const auto found = maps.find(name_in(request));
      return found == maps.end() ? refusal(404, "NotFound", name_in(request))
                                 : FakeAnswer{.body = found->second.dump()};
    });
    http.on(port::Method::Get, kAll, [this](const FakeRequest&) { return list(); });
    http.on(port::Method::Post, kAll, [this](const FakeRequest& request) {
      return faulty([&] { return create(nlohmann::json::parse(request.body)); });
    });
    http.on(port::Method::Patch, one, [this](const FakeRequest& request) {
      return faulty([&] { return patch(name_in(request), nlohmann::json::parse(request.body)); });
    });
    http.on(port::Method::Delete, one, [this](const FakeRequest& request) {
      maps.erase(name_in(request));
      return FakeAnswer{.body = R"({"kind":"Status","status":"Success"})"};
    });
  }

  [[nodiscard]] fence::IncidentRecord record(const std::string& id) const {
    auto parsed = fence::parse_record(
        maps.at("moonfence-incident-" + id)["data"]["record.json"].get<std::string>());
    EXPECT_TRUE(parsed) << parsed.error().message();
    return parsed ? *parsed : fence::IncidentRecord{};
  }
  [[nodiscard]] std::string label(const std::string& id) const {
    return maps.at("moonfence-incident-" + id)["metadata"]["labels"]["moonfence.io/incident"];
  }
  void put(const fence::IncidentRecord& record) {
    (void)create({{"metadata",
                   {{"namespace", "moonfence"},
                    {"name", "moonfence-incident-" + record.id.text()},
                    {"labels", {{"moonfence.io/incident", record.closed ? "closed" : "open"}}}}},
                  {"data", {{"record.json", fence::to_text(record)}}}});
  }

 private:
  static std::string name_in(const FakeRequest& request) {
    return request.path.substr(request.path.rfind('/') + 1);
  }
  static FakeAnswer refusal(int code, const std::string& reason, const std::string& name) {
    return {.status = code,
            .body = nlohmann::json{{"kind", "Status"},
                                   {"apiVersion", "v1"},
                                   {"status", "Failure"},
                                   {"reason", reason},
                                   {"message", "no"},
                                   {"code", code},
                                   {"details", {{"name", name}}}}
                        .dump()};
  }
  FakeAnswer faulty(const std::function<FakeAnswer()>& write) {
    ++writes;
    if (faults.empty()) {
      FakeAnswer answer = write();
      answer.delay = delay;
      return answer;
    }
    const Fault fault = faults.front();
    faults.erase(faults.begin());
    if (fault.done) {
      (void)write();
    }
    return fault.answer;
  }
  FakeAnswer list() const {
    nlohmann::json items = nlohmann::json::array();
    for (const auto& [name, map] : maps) {
      items.push_back(map);
    }
    return {.body = nlohmann::json{
                {"kind", "ConfigMapList"},
                {"metadata", {{"resourceVersion", "9"}}},
                {"items",
                 items}}.dump()};
  }
  void stamp(nlohmann::json& map) {
    map["metadata"]["resourceVersion"] = std::to_string(++version_);
  }
  FakeAnswer create(nlohmann::json map) {
    const std::string name = map["metadata"]["name"];
    if (maps.contains(name)) {
      return refusal(409, "AlreadyExists", name);
    }
    map["kind"] = "ConfigMap";
    map["metadata"]["uid"] = "map-" + std::to_string(++version_);
    stamp(map);
    maps[name] = map;
    return {.status = 201, .body = map.dump()};
  }
  FakeAnswer patch(const std::string& name, const nlohmann::json& patch) {
    const auto found = maps.find(name);
    if (found == maps.end()) {
      return refusal(404, "NotFound", name);
    }
    nlohmann::json map = found->second;
    map.merge_patch(patch);
    if (map["metadata"]["uid"] != found->second["metadata"]["uid"] ||
        map["metadata"]["resourceVersion"] != found->second["metadata"]["resourceVersion"]) {
      return refusal(409, "Conflict", name);
    }
    stamp(map);
    found->second = map;
    return {.body = map.dump()};
  }

  int version_ = 100;
};

}  // namespace moonfence::test
