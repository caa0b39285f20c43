#include "app/settings/settings.h"

#include <stdexcept>

#include <gtest/gtest.h>

namespace moonfence::app {
namespace {

using namespace std::chrono_literals;

// The text of the error, "" when it is read.
std::string fault(const std::string& text) {
  const auto settings = parse_settings(text, "engine.yaml");
  return settings ? "" : settings.error().text;
}

TEST(Settings, an_empty_file_gives_the_defaults) {
  for (const char* text : {"", "# nothing\n", "api: 1\n"}) {
    const auto settings = parse_settings(text, "engine.yaml");
    ASSERT_TRUE(settings) << settings.error().text;
    EXPECT_EQ(settings->cache_expiry, 1h);
    EXPECT_EQ(settings->retry_interval, 5s);
    EXPECT_EQ(settings->retry_window, 25s);
    EXPECT_EQ(settings->replacement_wait, 5min);
  }
}

TEST(Settings, every_key_is_read) {
  const auto settings = parse_settings(
      "api: 1\ncacheExpiry: 2h\nretryInterval: 1s500ms\nretryWindow: 1m\n"
      "replacementWait: 2m\n",
      "f");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->cache_expiry, 2h);
  EXPECT_EQ(settings->retry_interval, 1500ms);
  EXPECT_EQ(settings->retry_window, 1min);
  EXPECT_EQ(settings->replacement_wait, 2min);
}

TEST(Settings, nodes_are_tainted_by_us_only_when_told_to) {
  const auto quarantine = [](const std::string& text) {
    const auto settings = parse_settings("api: 1\n" + text, "f");
    return settings ? settings->quarantine : throw std::runtime_error(settings.error().text);
  };
  EXPECT_EQ(quarantine(""), fence::Quarantine::Off);
  EXPECT_EQ(quarantine("quarantine: off\n"), fence::Quarantine::Off);
  EXPECT_EQ(quarantine("quarantine: missing\n"), fence::Quarantine::Missing);
  EXPECT_EQ(quarantine("quarantine: always\n"), fence::Quarantine::Always);
  for (const char* value : {"on", "true", "[]", "Always", ""}) {
    const std::string text = fault("api: 1\nquarantine: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:2:"), std::string::npos) << value << ": " << text;
  }
}

TEST(Settings, bindings_wait_for_twelve_seconds_at_least_unless_told_otherwise) {
  EXPECT_EQ(parse_settings("api: 1\n", "f")->least_after, 12s);
  EXPECT_EQ(parse_settings("api: 1\nleastAfter: 6s\n", "f")->least_after, 6s);
  EXPECT_EQ(parse_settings("api: 1\nleastAfter: 1h\n", "f")->least_after, 1h);
  for (const char* value : {"5s", "0", "61m"}) {
    const std::string text = fault("api: 1\nleastAfter: " + std::string(value) + "\n");
    EXPECT_NE(text.find("is not from 6s to 1h"), std::string::npos) << value << ": " << text;
  }
  EXPECT_NE(fault("api: 1\nleastAfter: soon\n"), "");
}

TEST(Settings, nodes_are_remediated_for_others_only_when_told_to) {
  EXPECT_FALSE(parse_settings("api: 1\n", "f")->node_health_check);
  EXPECT_FALSE(parse_settings("api: 1\nremediation: off\n", "f")->node_health_check);
  EXPECT_TRUE(parse_settings("api: 1\nremediation: nodeHealthCheck\n", "f")->node_health_check);
  for (const char* value : {"on", "true", "[]", "NodeHealthCheck", ""}) {
    const std::string text = fault("api: 1\nremediation: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:2: remediation:"), std::string::npos) << value << ": " << text;
  }
}

TEST(Settings, an_expiry_of_zero_means_never) {
  const auto settings = parse_settings("api: 1\ncacheExpiry: 0\n", "f");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->cache_expiry, 0s);
}

TEST(Settings, fencing_drivers_are_names_of_csi_drivers) {
  const auto settings = parse_settings(
      "api: 1\nfencingDrivers:\n- driver.longhorn.io\n- rook-ceph.rbd.csi.ceph.com\n", "f");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->fencing_drivers,
            (std::set<std::string>{"driver.longhorn.io", "rook-ceph.rbd.csi.ceph.com"}));
  EXPECT_EQ(fault("api: 1\nfencingDrivers: []\n"), "");
  for (const char* value :
       {"all", "[\"*\"]", "[\"\"]", "[a b]", "[.a]", "[a/b]", "[[a]]", "{a: b}"}) {
    const std::string text = fault("api: 1\nfencingDrivers: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:2:"), std::string::npos) << value << ": " << text;
  }
}

TEST(Settings, proof_is_demanded_everywhere_by_namespace_and_by_driver) {
  using policy::Evidence;
  const auto settings = parse_settings(
      "api: 1\ndetection: on\nproof:\n  everywhere: [silent, unreachable]\n"
      "  namespaces: {db: [attested]}\n  drivers: {rbd.csi.ceph.com: [silent]}\n",
      "f");
  ASSERT_TRUE(settings) << settings.error().text;
  policy::EvidenceSet either;
  either.insert(Evidence::Silent);
  either.insert(Evidence::Unreachable);
  EXPECT_EQ(settings->proof.everywhere, either);
  EXPECT_TRUE(settings->proof.namespaces.at(Namespace("db")).contains(Evidence::Attested));
  EXPECT_TRUE(settings->proof.drivers.at("rbd.csi.ceph.com").contains(Evidence::Silent));
  for (const char* value :
       {"attested", "[]", "[attested]", "{}x", "{everywhere: attested}", "{everywhere: []}",
        "{everywhere: [dead]}", "{everywhere: [[attested]]}", "{everywhere: {attested: 1}}",
        "{namespaces: [db]}", "{namespaces: {DB: [attested]}}", "{namespaces: {db: []}}",
        "{drivers: {a/b: [attested]}}", "{somewhere: [attested]}",
        "{everywhere: [attested], everywhere: [silent]}",
        "{namespaces: {db: [attested], db: [silent]}}"}) {
    const std::string text = fault("api: 1\nproof: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:2:"), std::string::npos) << value << ": " << text;
  }
}

TEST(Settings, fencers_are_named_with_their_nodes_and_settings) {
  const auto settings = parse_settings(
      "api: 1\nfencers:\n- {fencer: redfish, nodes: 'rack=4', settings: {system: '1', n: 5, x: "
      "[a, true]}}\n- {fencer: own, file: /etc/moonfence/own.lua}\n",
      "f");
  ASSERT_TRUE(settings) << settings.error().text;
  ASSERT_EQ(settings->fencers.size(), 2U);
  EXPECT_FALSE(settings->fencers[0].switch_off);
  EXPECT_EQ(settings->fencers[0].name, "redfish");
  EXPECT_EQ(settings->fencers[0].nodes, "rack=4");
  EXPECT_EQ(settings->fencers[0].settings,
            nlohmann::json::parse(R"({"system": "1", "n": 5, "x": ["a", true]})"));
  EXPECT_EQ(settings->fencers[1].file, "/etc/moonfence/own.lua");
  for (const char* value :
       {"redfish", "[redfish]", "[{file: a}]", "[{fencer: []}]", "[{fencer: a, x: 1}]",
        "[{fencer: a, nodes: '=='}]", "[{fencer: a, settings: []}]"}) {
    const std::string text = fault("api: 1\nfencers: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:2:"), std::string::npos) << value << ": " << text;
  }
}

// Behind one that says isolated nobody is asked.
TEST(Settings, fencers_may_have_custom_resources_made_that_are_named) {
  const auto settings = parse_settings(
      "api: 1\nallowedWrites: [x.example.com/v1/fences]\n"
      "fencers: [{fencer: network-fence, isolate: true}]\n",
      "f");
  ASSERT_TRUE(settings) << settings.error().message();
  EXPECT_EQ(settings->allowed_writes, (std::set<std::string>{"x.example.com/v1/fences"}));
  EXPECT_TRUE(settings->fencers.at(0).isolate);
  for (const char* own : {"v1/pods", "apps/v1/deployments", "storage.k8s.io/v1/csinodes", "fences",
                          "x.example.com/fences"}) {
    EXPECT_NE(fault(std::string("api: 1\nallowedWrites: [") + own + "]\n").find("no custom"),
              std::string::npos)
        << own;
  }
}

TEST(Settings, network_fence_stands_behind_the_fencers_that_can_say_off) {
  const auto of = [](const std::string& list) { return fault("api: 1\nfencers: " + list + "\n"); };
  EXPECT_EQ(of("[{fencer: redfish}, {fencer: network-fence}]"), "");
  EXPECT_EQ(of("[{fencer: network-fence, nodes: a}, {fencer: network-fence, nodes: b}]"), "");
  for (const char* list : {"[{fencer: network-fence}, {fencer: redfish}]",
                           "[{fencer: network-fence, nodes: a}, {fencer: own, file: /f}]"}) {
    EXPECT_NE(of(list).find("network-fence stands before"), std::string::npos) << of(list);
  }
}

TEST(Settings, what_only_a_fencer_would_prove_needs_one) {
  EXPECT_EQ(fault("api: 1\nfencers: [{fencer: redfish, switchOff: true}]\n"), "");
  EXPECT_NE(fault("api: 1\nfencers: [{fencer: redfish, switchOff: yes}]\n").find("not a boolean"),
            std::string::npos);
  EXPECT_NE(fault("api: 1\nproof: {everywhere: [off]}\n").find("off needs"), std::string::npos);
  const std::string isolates = "api: 1\nfencers: [{fencer: network-fence}]\n";
  const std::string switches = "api: 1\nfencers: [{fencer: redfish}]\n";
  EXPECT_NE(fault(isolates + "proof: {everywhere: [off]}\n").find("off needs"), std::string::npos);
  EXPECT_EQ(fault(isolates + "proof: {everywhere: [off, isolated]}\n"), "");
  EXPECT_NE(fault(switches + "proof: {drivers: {a: [isolated]}}\n").find("isolated needs"),
            std::string::npos);
  EXPECT_EQ(fault("api: 1\nfencers: [{fencer: own, file: /f}]\n"
                  "proof: {everywhere: [off], drivers: {a: [isolated]}}\n"),
            "");
  EXPECT_EQ(fault("api: 1\nfencers: [{fencer: redfish}]\nproof: {everywhere: [off]}\n"), "");
  EXPECT_EQ(fault("api: 1\nproof: {everywhere: [off, attested]}\n"), "");
}

TEST(Settings, what_only_silence_would_prove_needs_detection) {
  const auto of = [](const std::string& demand) {
    return fault("api: 1\nproof: {everywhere: " + demand + "}\n");
  };
  EXPECT_NE(of("[silent]").find("silent needs detection: on"), std::string::npos);
  EXPECT_EQ(of("[silent, attested]"), "");
  EXPECT_NE(fault("api: 1\nproof: {namespaces: {db: [silent]}}\n"), "");
  EXPECT_NE(fault("api: 1\nproof: {drivers: {a: [silent]}}\n"), "");
  EXPECT_EQ(fault("api: 1\ndetection: on\nproof: {drivers: {a: [silent]}}\n"), "");
}

TEST(Settings, marks_that_hold_a_node_are_annotations) {
  const auto settings =
      parse_settings("api: 1\nholdMarks: [node.beta.openyurt.io/autonomy=true, mine]\n", "f");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->hold_marks,
            (std::set<std::string>{"mine", "node.beta.openyurt.io/autonomy=true"}));
  EXPECT_TRUE(parse_settings("api: 1\n", "f")->hold_marks.empty());
  for (const char* value : {"all", "[\"*\"]", "[\"\"]", "[a b]", "[/a]", "[a/b/c]", "[=x]"}) {
    EXPECT_NE(fault("api: 1\nholdMarks: " + std::string(value) + "\n").find("engine.yaml:2:"),
              std::string::npos)
        << value;
  }
}

TEST(Settings, releases_are_off_unless_they_are_on) {
  EXPECT_FALSE(parse_settings("api: 1\n", "f")->release.on);
  EXPECT_TRUE(parse_settings("api: 1\nrelease: on\n", "f")->release.on);
  EXPECT_FALSE(parse_settings("api: 1\nrelease: off\n", "f")->release.on);
  for (const char* value : {"true", "yes", "[on]", "", "On"}) {
    const std::string text = fault("api: 1\nrelease: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:2:"), std::string::npos) << value << ": " << text;
  }
}

TEST(Settings, machines_are_not_watched_unless_it_is_said) {
  EXPECT_FALSE(parse_settings("api: 1\n", "f")->detection.on);
  EXPECT_TRUE(parse_settings("api: 1\ndetection: on\n", "f")->detection.on);
  EXPECT_EQ(fault("api: 1\ndetection: {}\n"), "engine.yaml:2: detection: '' is neither on nor off");
}

TEST(Settings, silent_machines_are_not_tainted_unless_it_is_said) {
  EXPECT_FALSE(parse_settings("api: 1\ndetection: on\n", "f")->silent_taint);
  EXPECT_TRUE(parse_settings("api: 1\nsilentTaint: on\n", "f")->silent_taint);
  EXPECT_EQ(fault("api: 1\nsilentTaint: yes\n"),
            "engine.yaml:2: silentTaint: 'yes' is neither on nor off");
}

TEST(Settings, what_is_proven_is_not_written_to_nodes_unless_it_is_said) {
  EXPECT_FALSE(parse_settings("api: 1\n", "f")->publish_evidence);
  EXPECT_TRUE(parse_settings("api: 1\npublishEvidence: on\n", "f")->publish_evidence);
  EXPECT_EQ(fault("api: 1\npublishEvidence: true\n"),
            "engine.yaml:2: publishEvidence: 'true' is neither on nor off");
}

TEST(Settings, incidents_are_not_shown_as_objects_unless_it_is_said) {
  EXPECT_FALSE(parse_settings("api: 1\n", "f")->incident_objects);
  EXPECT_TRUE(parse_settings("api: 1\nincidentObjects: on\n", "f")->incident_objects);
  EXPECT_EQ(fault("api: 1\nincidentObjects: true\n"),
            "engine.yaml:2: incidentObjects: 'true' is neither on nor off");
}

TEST(Settings, the_leases_of_who_acts_on_a_release_are_named) {
  const auto settings = parse_settings(
      "api: 1\ncontrollerLease: control/kcm\nattacherLeases: {csi.example.com: storage/a.b-c}\n",
      "f");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->release.controller.text(), "control/kcm");
  EXPECT_EQ(settings->release.attachers.at("csi.example.com").text(), "storage/a.b-c");
  EXPECT_EQ(parse_settings("api: 1\n", "f")->release.controller.text(),
            "kube-system/kube-controller-manager");
  for (const char* value : {"kcm", "a/b/c", "/kcm", "control/", "[a/b]", "A/b", "a/B"}) {
    for (const char* key : {"controllerLease: ", "attacherLeases: {d: "}) {
      const bool is_map = std::string_view(key).ends_with("{d: ");
      const std::string text = fault("api: 1\n" + std::string(key) + value + (is_map ? "}" : ""));
      EXPECT_NE(text.find("engine.yaml:2:"), std::string::npos) << key << value << ": " << text;
    }
  }
  EXPECT_NE(fault("api: 1\nattacherLeases: [a/b]\n"), "");
}

TEST(Settings, an_unknown_key_is_an_error_with_its_line_and_the_nearest_known_one) {
  const std::string text = fault("api: 1\n\nretryIntervall: 5s\n");
  EXPECT_NE(text.find("engine.yaml:3:"), std::string::npos) << text;
  EXPECT_NE(text.find("did you mean 'retryInterval'?"), std::string::npos) << text;
}

TEST(Settings, a_value_of_the_wrong_kind_is_an_error_with_its_line) {
  for (const char* value : {"soon", "5", "-5s", "[5s]", "{a: 1}", "", "1e3s", "99999999999h"}) {
    const std::string text = fault("api: 1\nretryWindow: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:2:"), std::string::npos) << value << ": " << text;
    EXPECT_NE(text.find("retryWindow"), std::string::npos) << value << ": " << text;
  }
}

TEST(Settings, the_version_of_the_file_is_checked) {
  EXPECT_NE(fault("retryWindow: 30s\n"), "");
  EXPECT_NE(fault("api: 2\n"), "");
  EXPECT_NE(fault("api: [1]\n"), "");
}

TEST(Settings, a_file_that_is_no_mapping_is_an_error) {
  for (const char* text : {"- a\n", "hello\n", "api: 1\n  bad: [\n", "a: b: c\n", "\t\n- {"}) {
    EXPECT_NE(fault(text), "") << text;
  }
}

// Everything after the first document was passed over in silence.
TEST(Settings, a_second_document_is_an_error) {
  EXPECT_NE(fault("api: 1\n---\napi: 1\nretryInterval: 9s\n"), "");
  EXPECT_NE(fault(","), "") << "and this kept the parser busy for ever";
}

TEST(Settings, a_key_that_is_no_text_is_an_error) {
  EXPECT_NE(fault("api: 1\n[a, b]: 1\n"), "");
}

TEST(Settings, times_that_belong_together_are_checked_together) {
  EXPECT_NE(fault("api: 1\nretryInterval: 99ms\n"), "");
  EXPECT_EQ(fault("api: 1\nretryInterval: 100ms\n"), "");
  EXPECT_NE(fault("api: 1\nretryInterval: 30s\n"), "");  // longer than the window
  EXPECT_NE(fault("api: 1\nretryWindow: 4s\n"), "");
  EXPECT_NE(fault("api: 1\ncacheExpiry: 24s\n"), "");
  EXPECT_EQ(fault("api: 1\ncacheExpiry: 25s\n"), "");
}

TEST(Settings, a_term_that_could_not_be_kept_is_refused) {
  EXPECT_EQ(fault("api: 1\nleaseDuration: 30s\nleaseRenewDeadline: 20s\nleaseRetry: 4s\n"), "");
  EXPECT_EQ(fault("api: 1\nleaseDuration: 15s\nleaseRenewDeadline: 10s\nleaseRetry: 2s\n"), "");
  for (const char* text :
       {"leaseDuration: 3s", "leaseRenewDeadline: 1s", "leaseRetry: 9s", "leaseRetry: 1ms",
        "leaseDuration: 15s500ms", "leaseDuration: 4s\nleaseRenewDeadline: 4s\nleaseRetry: 2s"}) {
    const std::string message = fault("api: 1\n" + std::string(text) + "\n");
    EXPECT_NE(message.find("lease"), std::string::npos) << text;
  }
}

TEST(Settings, a_time_that_would_overflow_is_refused) {
  EXPECT_EQ(fault("api: 1\ncacheExpiry: 8760h\n"), "");
  EXPECT_NE(fault("api: 1\ncacheExpiry: 8761h\n"), "");
  EXPECT_NE(fault("api: 1\nretryInterval: 200000h\nretryWindow: 200000h\ncacheExpiry: 0\n"), "");
}

TEST(Settings, the_brake_is_on_unless_told_otherwise) {
  const auto settings = parse_settings("", "f");
  ASSERT_TRUE(settings);
  EXPECT_EQ(settings->brake, fence::BrakeRules());
  EXPECT_EQ(settings->brake.max_down, fence::Limit::share(50));
  EXPECT_EQ(settings->brake.cluster.at_once, fence::Limit::of(5));
  EXPECT_EQ(settings->brake.cluster.per_window, fence::Limit::of(10));
  EXPECT_EQ(settings->brake.window, 10min);
}

TEST(Settings, every_limit_of_the_brake_is_read) {
  const auto settings = parse_settings(
      "api: 1\nbrake:\n  maxDown: 7\n  maxAtOnce: 20%\n  maxPerWindow: 3\n  window: 1h\n"
      "  coolDown: 30s\n  zone: {maxDown: 80%, minDown: 4, maxAtOnce: 2, maxPerWindow: 30%}\n",
      "f");
  ASSERT_TRUE(settings) << settings.error().text;
  using fence::Limit;
  EXPECT_EQ(settings->brake,
            (fence::BrakeRules{.max_down = Limit::of(7),
                               .cluster = {.at_once = Limit::share(20), .per_window = Limit::of(3)},
                               .zone_max_down = Limit::share(80),
                               .zone_min_down = 4,
                               .zone = {.at_once = Limit::of(2), .per_window = Limit::share(30)},
                               .window = 1h,
                               .cool_down = 30s}));
}

TEST(Settings, labels_leave_nodes_out_of_the_brake_s_count) {
  const auto settings = parse_settings(
      "api: 1\nbrake: {exclude: [moonfence.io/uncounted, pool=spot], stormMemory: 2h}\n", "f");
  ASSERT_TRUE(settings) << settings.error().text;
  EXPECT_EQ(settings->brake.memory, 2h);
  ASSERT_EQ(settings->brake.exclude.size(), 2U);
  EXPECT_EQ(settings->brake.exclude[0].key, "moonfence.io/uncounted");
  EXPECT_EQ(settings->brake.exclude[0].value, std::nullopt);
  EXPECT_EQ(settings->brake.exclude[1].value, "spot");
  EXPECT_NE(fault("api: 1\nbrake: {exclude: pool}\n"), "");
  EXPECT_NE(fault("api: 1\nbrake: {exclude: ['!pool']}\n"), "");
  EXPECT_NE(fault("api: 1\nbrake: {stormMemory: 5m}\n"), "");  // shorter than the window
}

TEST(Settings, each_limit_of_the_brake_can_be_switched_off) {
  for (const char* off : {"off"}) {
    const auto settings =
        parse_settings("api: 1\nbrake: {maxDown: " + std::string(off) + "}\n", "f");
    ASSERT_TRUE(settings) << settings.error().text;
    EXPECT_EQ(settings->brake.max_down, fence::Limit::off());
    EXPECT_EQ(settings->brake.cluster, fence::BrakeRules().cluster);  // and nothing else
  }
}

TEST(Settings, a_limit_that_is_none_is_an_error_with_its_line) {
  for (const char* value :
       {"-1", "+5", "5.5", "101%", "half", "", "[5]", "1000001", "5 %", "0", "0%"}) {
    const std::string text = fault("api: 1\nbrake:\n  maxAtOnce: " + std::string(value) + "\n");
    EXPECT_NE(text.find("engine.yaml:3: maxAtOnce"), std::string::npos) << value << ": " << text;
  }
  EXPECT_NE(fault("api: 1\nbrake: 5\n"), "");
  EXPECT_NE(fault("api: 1\nbrake: {window: 0}\n"), "");
  EXPECT_NE(fault("api: 1\nbrake: {zone: {minDown: two}}\n"), "");
  EXPECT_NE(fault("api: 1\nbrake: {maxdown: 5}\n").find("did you mean 'maxDown'?"),
            std::string::npos);
  EXPECT_NE(fault("api: 1\nbrake: {zone: {window: 5s}}\n"), "");
}

TEST(Settings, the_cluster_s_own_namespaces_are_protected_unless_told_otherwise) {
  const auto protects = [](const std::string& text) {
    const auto settings = parse_settings(text, "f");
    EXPECT_TRUE(settings);
    return settings ? settings->protected_namespaces : std::set<Namespace>();
  };
  EXPECT_EQ(protects(""), (std::set{Namespace("kube-node-lease"), Namespace("kube-public"),
                                    Namespace("kube-system")}));
  EXPECT_EQ(protects("api: 1\nprotectedNamespaces: [db]\n"), std::set{Namespace("db")});
  EXPECT_EQ(protects("api: 1\nprotectedNamespaces: []\n"), std::set<Namespace>());
  for (const char* value : {"db", "[DB]", "[[db]]", "", "['']", "{a: b}"}) {
    EXPECT_NE(fault("api: 1\nprotectedNamespaces: " + std::string(value) + "\n"), "") << value;
  }
}

}  // namespace
}  // namespace moonfence::app
