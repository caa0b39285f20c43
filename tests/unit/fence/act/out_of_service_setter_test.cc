#include "fence/act/out_of_service_setter.h"

#include "unit/fence/incidents_fixture.h"

namespace moonfence::fence {
namespace {

using nlohmann::json;

constexpr const char* kKey = "node.kubernetes.io/out-of-service";

struct OutOfServiceSetterTest : IncidentsTest {
  test::FakeAnswer version = {.body = R"({"major": "1", "minor": "30"})"};

  OutOfServiceSetterTest() {
    add_pod("web-0");
    add_pod("web-1");
    nodes["n1"].heartbeat = "2026-01-02T04:59:20Z";
    http.on(port::Method::Get, "/version", [this](const test::FakeRequest&) { return version; });
  }
  static Binding retires(const std::string& pod = "return fence.delete_pod('its node is off')",
                         const std::string& name = "a") {
    Binding binding = everywhere(named_policy(
        name, pod,
        "node = function(node) return fence.taint_out_of_service('its power is off') end,"));
    binding.allow.out_of_service = true;
    return binding;
  }
  // Its `node` function is what is given, and its pods wait: it is asked in every pass.
  static Binding asks(const std::string& node) {
    Binding binding = retires("return fence.wait('1s', 'not yet')");
    binding.policy = named_policy("a", "return fence.wait('1s', 'not yet')",
                                  "node = function(node) " + node + " end,");
    binding.digest = binding.policy->digest();
    return binding;
  }
  // Forbids what it is asked about, in `shop`.
  static Binding warden(const std::string& body = "return fence.forbid('precious')") {
    return binding_of(named_policy("warden", body), Mode::Enforce, {Namespace("shop")});
  }
  void add_daemon(const std::string& name) {
    add_pod(name, "n1", "shop", "daemon");
    pods[name]["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet";
  }
  // The taint is set, and somebody with an old picture of the list drops it.
  void set_and_drop() {
    tell(Look::Fell);
    run_for(500ms);
    ASSERT_EQ(patches().size(), 1U);
    nodes["n1"].taints.clear();
  }
  [[nodiscard]] std::size_t closed() const {
    return story.count(Record::Kind::IncidentClosed, Reason::Settled);
  }
  void open(std::vector<Binding> bindings = {retires()}) {
    activate(std::move(bindings));
    incidents.emplace(surroundings(), IncidentRules{},
                      [this] { return IncidentId("i" + std::to_string(++made_ids)); });
  }
  [[nodiscard]] std::vector<json> patches() const {
    std::vector<json> found;
    for (const test::FakeRequest& request : http.requests) {
      if (request.method == port::Method::Patch && request.path.starts_with("/api/v1/nodes/")) {
        found.push_back(json::parse(request.body));
      }
    }
    return found;
  }
  [[nodiscard]] std::size_t refused(Reason reason) const {
    return story.count(Record::Kind::Refusal, reason);
  }
  // Refused for this reason, once, and nothing was done in its place.
  void expect_refused(Reason reason) {
    tell(Look::Fell);
    run_for(2min);
    EXPECT_EQ(refused(reason), 1U) << code(reason);
    EXPECT_EQ(patches().size(), 0U);
    EXPECT_EQ(deletes(), Lines{});
    EXPECT_FALSE(nodes["n1"].is_out_of_service());
  }
};

// The word of a person on n1 as FenceTest shows it.
json word() {
  return R"({"at":"2026-01-02T04:59:30Z","bootID":"boot-1","by":"alice",)"
         R"("lastHeartbeatTime":"2026-01-02T04:59:20Z","lease":"lease-n1","node":"node-1",)"
         R"("reason":"no light on it","renewTime":"2026-01-02T04:59:20.000000Z","state":"off"})";
}

struct ProvenOutOfServiceTest : OutOfServiceSetterTest {
  static Binding retires_by(const std::string& proof, const std::string& name = "a") {
    Binding binding = everywhere(
        named_policy(name, "return fence.delete_pod('its node is off')",
                     "node = function(node) return fence.taint_out_of_service('off', { proof = { " +
                         proof + " } }) end,"));
    binding.allow.out_of_service = true;
    return binding;
  }
  void attest() { nodes["n1"].annotations["moonfence.io/attested"] = word(); }
};

TEST_F(ProvenOutOfServiceTest, the_taint_waits_for_the_proof_that_its_policy_demands) {
  open({retires_by("'attested'")});
  tell(Look::Fell);
  run_for(2min);
  EXPECT_EQ(refused(Reason::ProofMissing), 0U) << "nobody tries to set it";
  EXPECT_EQ(patches().size(), 0U);
  EXPECT_EQ(deletes(), Lines{});
  attest();
  run_for(10s);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
  EXPECT_EQ(deletes().size(), 2U);
  for (const Record& record : story.records) {
    if (record.kind == Record::Kind::Intent) {
      EXPECT_NE(record.evidence.find("attested: off by alice"), std::string::npos) << record.action;
    }
  }
}

// Kubernetes evicts every pod: also those for which another policy waits.
TEST_F(ProvenOutOfServiceTest, what_another_policy_s_taint_demands_keeps_the_node_in_service) {
  for (const bool first : {true, false}) {
    std::vector<Binding> bindings = {retires_by("'attested'", "a"),
                                     retires_by("'unreachable'", "b")};
    if (!first) {
      std::swap(bindings[0], bindings[1]);
    }
    open(std::move(bindings));
    tell(Look::Fell);
    run_for(1min);
    EXPECT_EQ(patches().size(), 0U);
    EXPECT_EQ(deletes(), Lines{});
  }
}

TEST_F(ProvenOutOfServiceTest, what_the_policy_of_one_pod_demands_keeps_the_node_in_service) {
  add_pod("kept", "n1", "shop");
  open({retires(),
        binding_of(named_policy("b", "return fence.delete_pod('x', { proof = { 'attested' } })"),
                   Mode::Enforce, {Namespace("shop")})});
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(patches().size(), 0U);
  EXPECT_EQ(refused(Reason::ProofMissing), 1U);
  attest();
  run_for(10s);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
}

TEST_F(ProvenOutOfServiceTest,
       what_the_configuration_demands_of_one_pod_keeps_the_node_in_service) {
  policy::EvidenceSet attested;
  attested.insert(policy::Evidence::Attested);
  protections.proof.namespaces = {{Namespace("shop"), attested}};
  add_pod("kept", "n1", "shop");
  open();
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(patches().size(), 0U);
  attest();
  run_for(10s);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
}

TEST_F(ProvenOutOfServiceTest, a_policy_that_holds_the_node_keeps_it_in_service_for_another) {
  Binding holds =
      everywhere(named_policy("b", "return fence.delete_pod('x')",
                              "node = function(node) return fence.hold('Ceph may write', 5) end,"));
  open({retires(), holds});
  tell(Look::Fell);
  run_for(1min);
  EXPECT_EQ(patches().size(), 0U);
  EXPECT_EQ(deletes(), Lines{});
}

// What was listed before the taint is not all that guards have to be asked about.
TEST_F(OutOfServiceSetterTest, a_guard_is_asked_about_a_pod_as_it_is_now) {
  plans_ahead = true;
  nodes["n1"].tainted = false;
  add_pod("kept", "n1", "shop");
  pods["kept"]["metadata"]["resourceVersion"] = "5";
  open({retires(), warden("if pod.labels.keep then return fence.forbid('precious') end "
                          "return fence.skip('none of mine')")});
  tell(Look::Fell);
  run_for(10ms);
  pods["kept"]["metadata"]["resourceVersion"] = "6";
  pods["kept"]["metadata"]["labels"]["keep"] = "yes";
  nodes["n1"].tainted = true;
  list_answer.delay = 3ms;
  tell();
  run_for(10s);
  EXPECT_FALSE(nodes["n1"].is_out_of_service());
  EXPECT_EQ(patches().size(), 0U);
}

TEST_F(OutOfServiceSetterTest, the_node_is_tainted_and_then_its_pods_go) {
  open();
  run_incident();
  ASSERT_EQ(patches().size(), 1U);
  const json taints =
      json::array({{{"key", kKey}, {"value", "nodeshutdown"}, {"effect", "NoExecute"}}});
  EXPECT_EQ(nodes["n1"].taints, taints);
  EXPECT_TRUE(nodes["n1"].tainted);  // Kubernetes' own
  const auto mark = read_mark(nodes["n1"].out_of_service_mark());
  ASSERT_TRUE(mark);
  EXPECT_EQ(mark->incident, IncidentId("i1"));
  EXPECT_EQ(mark->boot_id, "boot-1");
  EXPECT_EQ(deletes(), (Lines{"web-0 10ms", "web-1 10ms"}));
  EXPECT_EQ(story.count(Record::Kind::Intent, Reason::SetsOutOfService), 1U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(OutOfServiceSetterTest, it_stands_in_the_record_before_it_is_done) {
  bool stood = false;
  story.hook = [&](const Record& record) {
    if (record.reason == Reason::SetsOutOfService) {
      for (const test::FakeRequest& request : http.requests) {
        stood = stood || request.body.find("taint_node") != std::string::npos;
      }
    }
  };
  open();
  run_incident();
  EXPECT_TRUE(stood);
}

TEST_F(OutOfServiceSetterTest, the_patch_tests_all_that_it_was_read_by) {
  open();
  run_incident();
  ASSERT_EQ(patches().size(), 1U);
  std::vector<std::string> tested;
  const json patch = patches()[0];
  for (const json& operation : patch) {
    if (operation["op"] == "test") {
      tested.push_back(operation["path"]);
    }
  }
  EXPECT_EQ(tested, (Lines{"/metadata/uid", "/status/nodeInfo/bootID", "/spec/taints",
                           "/status/conditions/0/type", "/status/conditions/0/status",
                           "/status/conditions/0/lastHeartbeatTime",
                           "/metadata/annotations/moonfence.io~1out-of-service"}));
}

TEST_F(OutOfServiceSetterTest, an_older_server_does_not_serve_it) {
  version.body = R"({"major": "1", "minor": "20"})";
  open();
  expect_refused(Reason::TaintNotServed);
  EXPECT_EQ(closed(), 0U) << "its node is down and its pods are there";
  EXPECT_GE(story.count(Record::Kind::IncidentHeld, Reason::StillWaiting), 1U);
  version.body = R"({"major": "1", "minor": "30"})";
  run_for(61s);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
  EXPECT_EQ(deletes().size(), 2U);
}

TEST_F(OutOfServiceSetterTest, a_server_that_does_not_say_what_it_is_may_not_serve_it) {
  version = status(403, "Forbidden");
  open();
  expect_refused(Reason::VersionUnknown);
}

TEST_F(OutOfServiceSetterTest, a_pod_of_a_protected_namespace_keeps_the_node) {
  protections.namespaces = {Namespace("kube-system")};
  add_pod("dns-0", "n1", "kube-system", "dns");
  open();
  expect_refused(Reason::ProtectedNamespace);
  EXPECT_EQ(closed(), 0U);
  pods.erase("dns-0");
  run_for(61s);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
}

// The incident was over with the refusal, and nobody looked again.
TEST_F(OutOfServiceSetterTest, when_the_pod_that_kept_the_node_is_gone_the_node_is_tainted) {
  protections.namespaces = {Namespace("kube-system")};
  add_pod("dns-0", "n1", "kube-system", "dns");
  open();
  expect_refused(Reason::ProtectedNamespace);
  EXPECT_EQ(incidents->open_incidents(), 1U);
  pods.erase("dns-0");
  run_for(2min);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
  EXPECT_EQ(deletes().size(), 2U);
}

TEST_F(OutOfServiceSetterTest, one_that_tolerates_the_taint_does_not) {
  protections.namespaces = {Namespace("kube-system")};
  add_pod("proxy-0", "n1", "kube-system", "proxy");
  pods["proxy-0"]["spec"]["tolerations"] = json::array({{{"operator", "Exists"}}});
  open();
  run_incident();
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
  EXPECT_EQ(deletes(), (Lines{"web-0 10ms", "web-1 10ms"}));
}

TEST_F(OutOfServiceSetterTest, a_guard_that_would_not_be_asked_yet_may_forbid_it) {
  add_pod("precious-0", "n1", "shop", "shop");
  const Binding guard = binding_of(
      named_policy("warden",
                   "if pod.name == 'precious-0' then return fence.forbid('precious') end "
                   "return fence.skip('not precious')",
                   "trigger = { failures = 9, interval = '1h' },"),
      Mode::Enforce, {Namespace("shop")});
  open({retires(), guard});
  expect_refused(Reason::PolicyForbids);
}

TEST_F(OutOfServiceSetterTest, a_pod_that_somebody_holds_is_not_evicted) {
  namespaces["db"]["moonfence.io/hold"] = "disk being saved";
  open();
  expect_refused(Reason::OnHold);
}

TEST_F(OutOfServiceSetterTest, a_pod_that_another_policy_waits_for_is_not_evicted) {
  for (const auto& [word, reason] :
       {std::pair("return fence.wait('it may still write', 20)", Reason::PolicyWaits),
        std::pair("return fence.hold('it may still write', 20)", Reason::PolicyHolds)}) {
    open({retires(), binding_of(named_policy("ceph", word), Mode::Enforce)});
    expect_refused(reason);
  }
}

TEST_F(OutOfServiceSetterTest, a_guard_that_could_not_be_loaded_keeps_the_pods_of_its_scope) {
  add_pod("other-0", "n1", "shop", "shop");
  Binding only_web = retires();
  only_web.policy = named_policy("a", "return fence.delete_pod('x')",
                                 "select = { labels = 'app=web' }, node = function(node) return "
                                 "fence.taint_out_of_service('its power is off') end,");
  only_web.digest = only_web.policy->digest();
  open({only_web, broken_guard({Namespace("shop")})});
  expect_refused(Reason::GuardBroken);
}

TEST_F(OutOfServiceSetterTest, a_list_that_could_not_be_read_keeps_it) {
  pods["web-1"]["metadata"].erase("uid");  // one that cannot be understood
  open();
  tell(Look::Fell);
  run_for(2min);
  EXPECT_GE(refused(Reason::PodsUnknown), 1U);
  EXPECT_EQ(patches().size(), 0U);
}

TEST_F(OutOfServiceSetterTest, observing_only_tells) {
  Binding observing = retires();
  observing.mode = Mode::Observe;
  open({observing});
  run_incident();
  EXPECT_EQ(patches().size(), 0U);
  EXPECT_EQ(story.count(Record::Kind::IncidentHeld, Reason::ModeObserves), 1U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(OutOfServiceSetterTest, somebody_else_s_taint_is_as_good_and_is_left_alone) {
  nodes["n1"].taints = json::array({{{"key", kKey}, {"effect", "NoExecute"}}});
  const json before = nodes["n1"].taints;
  open();
  run_incident();
  EXPECT_EQ(patches().size(), 0U);
  EXPECT_EQ(nodes["n1"].taints, before);
  EXPECT_EQ(deletes(), (Lines{"web-0 0s", "web-1 0s"}));
}

TEST_F(OutOfServiceSetterTest, one_of_another_boot_is_renewed) {
  nodes["n1"].taints =
      json::array({{{"key", kKey}, {"value", "nodeshutdown"}, {"effect", "NoExecute"}}});
  nodes["n1"].annotations["moonfence.io/out-of-service"] =
      to_text(FenceMark{.incident = IncidentId("i0"),
                        .boot_id = "boot-0",
                        .since = *parse_rfc3339("2026-01-02T05:00:00Z")});
  open();
  run_incident();
  ASSERT_EQ(patches().size(), 1U);
  EXPECT_EQ(read_mark(nodes["n1"].out_of_service_mark())->boot_id, "boot-1");
  EXPECT_EQ(deletes().size(), 2U);
}

TEST_F(OutOfServiceSetterTest, a_node_that_changed_meanwhile_is_read_again) {
  patch_answers = {status(422, "Invalid")};
  open();
  run_incident();
  EXPECT_EQ(patches().size(), 2U);
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::NodeChanged), 1U);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
}

TEST_F(OutOfServiceSetterTest, a_lost_reply_is_settled_by_reading_the_node) {
  patch_answers = {status(500, "InternalError")};
  open();
  run_incident();
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
  EXPECT_EQ(deletes().size(), 2U);
}

// A webhook that fails for a minute was asked three times in each pass.
TEST_F(OutOfServiceSetterTest, after_a_pass_that_failed_it_is_tried_once_in_the_next) {
  patch_answers.assign(20, status(500, "InternalError"));
  open();
  tell(Look::Fell);
  run_for(4s);
  EXPECT_EQ(patches().size(), 3U);
  run_for(20s);
  EXPECT_EQ(patches().size(), 7U);  // at 5, 10, 15 and 20 s
  patch_answers.clear();
  run_for(10s);
  EXPECT_EQ(deletes().size(), 2U);
}

// What had failed before something else kept the node in service cost a later pass its second try.
TEST_F(OutOfServiceSetterTest, after_one_that_a_guard_stopped_it_is_tried_as_often_as_at_first) {
  patch_answers.assign(3, status(500, "InternalError"));
  protections.namespaces = {Namespace("kube-system")};
  open();
  tell(Look::Fell);
  run_for(3s);
  ASSERT_EQ(patches().size(), 3U);
  add_pod("dns-0", "n1", "kube-system", "dns");
  run_for(1min);
  ASSERT_EQ(patches().size(), 3U);
  patch_answers = {status(422, "Invalid")};
  pods.erase("dns-0");
  ASSERT_TRUE(run_until([this] { return patches().size() == 4; }));
  run_for(1s);
  EXPECT_TRUE(nodes["n1"].is_out_of_service()) << "somebody wrote to the node in between";
}

// The server does not let us write to the node, whatever it is.
TEST_F(OutOfServiceSetterTest,
       whoever_cannot_set_our_taint_does_not_try_this_one_in_the_same_pass) {
  quarantine = Quarantine::Always;
  patch_answers.assign(6, status(500, "InternalError"));
  Binding other = everywhere(named_policy("other", "return fence.delete_pod('it is dead')"));
  open({other, retires("return fence.wait('1s', 'not yet')", "b")});
  tell(Look::Fell);
  run_for(500ms);
  EXPECT_EQ(patches().size(), 3U);
  run_for(1min);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
}

TEST_F(OutOfServiceSetterTest,
       where_our_taint_alone_is_refused_the_node_goes_out_of_service_all_the_same) {
  quarantine = Quarantine::Always;
  http.on(port::Method::Patch, "/api/v1/nodes/*", [this](const test::FakeRequest& request) {
    return request.body.find(kKey) == std::string::npos ? status(500, "InternalError")
                                                        : patch_node(request);
  });
  Binding other = everywhere(named_policy("other", "return fence.delete_pod('it is dead')"));
  open({other, retires("return fence.wait('1s', 'not yet')", "b")});
  tell(Look::Fell);
  run_for(5s);
  EXPECT_FALSE(nodes["n1"].is_out_of_service());
  run_for(10s);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
}

TEST_F(OutOfServiceSetterTest, without_the_right_to_it_its_pods_are_held) {
  patch_answers.assign(20, status(403, "Forbidden"));
  open();
  tell(Look::Fell);
  run_for(24s);
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(story.count(Record::Kind::Outcome, Reason::Refused), 5U);  // 0, 5 … 20 s
  patch_answers.clear();
  run_for(10s);
  EXPECT_EQ(deletes().size(), 2U);
}

TEST_F(OutOfServiceSetterTest, one_that_somebody_drops_is_set_again) {
  open();
  tell(Look::Fell);
  run_for(500ms);
  ASSERT_EQ(deletes().size(), 2U);
  nodes["n1"].taints.clear();  // by a controller with an old picture of the list
  run_for(1s);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
  EXPECT_EQ(patches().size(), 2U);
}

TEST_F(OutOfServiceSetterTest, it_is_not_set_again_once_its_policy_wants_it_no_more_or_fails) {
  for (const char* now : {"return fence.hold('its power is on', '1s')", "error('oh no')",
                          "return fence.proceed('it is clean')"}) {
    nodes["n1"].taints.clear();
    nodes["n1"].annotations.clear();
    nodes["n1"].unschedulable = false;
    http.requests.clear();
    open({asks(std::string("if node.unschedulable then ") + now +
               " end return fence.taint_out_of_service('its power is off')")});
    set_and_drop();
    nodes["n1"].unschedulable = true;
    run_for(10s);
    EXPECT_EQ(patches().size(), 1U) << now;
    EXPECT_FALSE(nodes["n1"].is_out_of_service()) << now;
  }
}

TEST_F(OutOfServiceSetterTest, nor_for_another_boot) {
  open();
  set_and_drop();
  nodes["n1"].boot_id = "boot-2";
  run_for(5s);
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(OutOfServiceSetterTest, nor_for_policies_that_were_replaced) {
  for (const bool told : {false, true}) {
    nodes["n1"].taints.clear();
    nodes["n1"].annotations.clear();
    add_pod("web-0");
    http.requests.clear();
    open();
    set_and_drop();
    node_answer.delay = 10ms;  // passes without a pause would never end in virtual time
    activate({retires(), warden("return fence.skip('none of mine')")});
    if (told) {
      incidents->policies_changed();
    }
    const std::size_t before = http.requests.size();
    run_for(1min);
    EXPECT_EQ(patches().size(), 1U) << told;
    EXPECT_LE(http.requests.size() - before, 40U) << told;
    node_answer.delay = {};
  }
}

TEST_F(OutOfServiceSetterTest, nor_after_a_reload_that_was_taken_back) {
  open();
  set_and_drop();
  activate({retires(), warden("return fence.skip('none of mine')")});
  incidents->policies_changed();
  activate({retires()});
  incidents->policies_changed();
  run_for(1min);
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(OutOfServiceSetterTest, with_somebody_who_drops_it_each_time_pauses_grow_and_that_is_told) {
  std::vector<std::string> set_at;
  story.hook = [this, &set_at](const Record& record) {
    if (record.kind == Record::Kind::Outcome && record.action == "taint_out_of_service") {
      set_at.push_back(rounded(loop.now()));
      nodes["n1"].taints.clear();
    }
  };
  open();
  tell(Look::Fell);
  run_for(3min);
  EXPECT_EQ(set_at, (Lines{"0s", "10ms", "2s10ms", "6s10ms", "14s10ms", "30s10ms", "1m2s10ms",
                           "2m2s10ms"}));
  EXPECT_EQ(deletes(), Lines{});
  EXPECT_EQ(refused(Reason::NodeChanged), 1U);
  EXPECT_EQ(incidents->open_incidents(), 1U);
}

TEST_F(OutOfServiceSetterTest, without_a_ready_condition_nothing_can_be_tested) {
  nodes["n1"].ready = "";
  open({[] {
    Binding binding = retires();
    binding.policy = named_policy("a", "return fence.delete_pod('its node is off')",
                                  "trigger = { live_kubelet = true }, node = function(node) return "
                                  "fence.taint_out_of_service('its power is off') end,");
    binding.digest = binding.policy->digest();
    return binding;
  }()});
  expect_refused(Reason::ReadyMissing);
}

TEST_F(OutOfServiceSetterTest, a_guard_may_forbid_a_pod_of_a_daemon_set) {
  add_daemon("agent-0");
  open({retires(), warden()});
  expect_refused(Reason::PolicyForbids);
}

TEST_F(OutOfServiceSetterTest, a_guard_that_fails_over_one_may_have_forbidden_it) {
  add_daemon("agent-0");
  open({retires(), warden("error('oh no') return fence.forbid('precious')")});
  expect_refused(Reason::GuardFailed);
}

TEST_F(OutOfServiceSetterTest, a_daemon_that_tolerates_the_taint_stays_whatever_a_guard_says) {
  add_daemon("agent-0");
  pods["agent-0"]["spec"]["tolerations"] = json::array({{{"operator", "Exists"}}});
  open({retires(), warden()});
  run_incident();
  EXPECT_EQ(patches().size(), 1U);
}

TEST_F(OutOfServiceSetterTest, a_guard_may_forbid_a_bare_pod_that_only_it_selects) {
  add_pod("bare-0", "n1", "shop", "other");
  pods["bare-0"]["metadata"].erase("ownerReferences");
  Binding only_web = retires();
  only_web.policy = named_policy("a", "return fence.delete_pod('x')",
                                 "select = { labels = 'app=web' }, node = function(node) return "
                                 "fence.taint_out_of_service('its power is off') end,");
  only_web.digest = only_web.policy->digest();
  only_web.allow.bare_pods = true;
  open({only_web, warden()});
  expect_refused(Reason::PolicyForbids);
}

// The leader before us died when the patch had left and no answer had come.
struct OutOfServiceTakeOverTest : OutOfServiceSetterTest {
  void die_after_sending() {
    patch_answers = {{.delay = 1h}};
    open();
    tell(Look::Fell);
    run_for(500ms);
    ASSERT_EQ(patches().size(), 1U);
    ASSERT_EQ(deletes(), Lines{});
    incidents.reset();
    journal.reset();
  }
  void restart() {
    start_journal("moonfence-0_b");
    incidents.emplace(surroundings(), IncidentRules{},
                      [this] { return IncidentId("i" + std::to_string(++made_ids)); });
    incidents->await_records();
    journal->read(
        [this](const std::vector<Journal::Found>& found) { incidents->take_over(found); });
    tell(Look::Swept);
    run_for(1min);
  }
};

TEST_F(OutOfServiceTakeOverTest, what_was_sent_and_did_not_arrive_is_sent_again) {
  die_after_sending();
  restart();
  EXPECT_EQ(patches().size(), 2U);
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
  EXPECT_EQ(deletes().size(), 2U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(OutOfServiceTakeOverTest, what_arrived_is_in_place_and_its_pods_go) {
  die_after_sending();
  nodes["n1"].taints =
      json::array({{{"key", kKey}, {"value", "nodeshutdown"}, {"effect", "NoExecute"}}});
  nodes["n1"].annotations["moonfence.io/out-of-service"] =
      to_text(FenceMark{.incident = IncidentId("i1"),
                        .boot_id = "boot-1",
                        .since = *parse_rfc3339("2026-01-02T05:00:00Z")});
  restart();
  EXPECT_EQ(patches().size(), 1U);
  EXPECT_EQ(deletes().size(), 2U);
  EXPECT_EQ(closed_by(), Reason::Settled);
}

TEST_F(OutOfServiceSetterTest, others_act_on_their_pods_meanwhile) {
  Binding other = binding_of(named_policy("b", "return fence.delete_pod('dead')"), Mode::Enforce,
                             {Namespace("shop")});
  add_pod("shop-0", "n1", "shop", "shop");
  Binding strict = retires("return fence.skip('Kubernetes evicts it')");
  open({strict, other});
  run_incident();
  EXPECT_EQ(deletes(), Lines{"shop-0 0s"});
  EXPECT_TRUE(nodes["n1"].is_out_of_service());
}

}  // namespace
}  // namespace moonfence::fence
