#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "policy/host/policy.h"
#include "support/policies.h"

namespace moonfence {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

TEST(Verdict, whatever_else_is_returned_is_refused) {
  const std::string rule = "; it must return a verdict, such as fence.skip(reason)";
  const auto refused = [&](const std::string& what) {
    return "test.lua:1: pod returned " + what + rule;
  };
  EXPECT_EQ(outcome(""), refused("nil"));
  EXPECT_EQ(outcome("return nil"), refused("nil"));
  EXPECT_EQ(outcome("return true"), refused("a boolean"));
  EXPECT_EQ(outcome("return 'delete_pod'"), refused("a text"));
  EXPECT_EQ(outcome("return 7"), refused("an integer"));
  EXPECT_EQ(outcome("return { kind = 'delete_pod', reason = 'x' }"), refused("a table"));
  EXPECT_EQ(outcome("return fence.delete_pod"), refused("a function"));
  EXPECT_EQ(outcome("return fence"), refused("a table"));
  EXPECT_EQ(outcome("return pod"), refused("pod"));
}

TEST(Verdict, one_made_outside_of_pod_is_refused_at_load) {
  EXPECT_EQ(load_error("local v = fence.delete_pod('x')\n" + policy_text("return v")),
            "test.lua:1: fence.delete_pod: a verdict is about one pod; make it inside of pod()");
}

TEST(Verdict, a_reason_is_demanded) {
  for (const char* call : {"skip", "forbid", "wait", "delete_pod"}) {
    const std::string made = std::string("return fence.") + call;
    EXPECT_THAT(outcome(made + "()"),
                EndsWith("argument 1 must be the reason, a text, not nothing"));
    EXPECT_THAT(outcome(made + "(5)"), EndsWith("must be the reason, a text, not an integer"));
    EXPECT_THAT(outcome(made + "(nil)"), EndsWith("must be the reason, a text, not nil"));
    EXPECT_THAT(outcome(made + "({})"), EndsWith("must be the reason, a text, not a table"));
    EXPECT_THAT(outcome(made + "('')"), HasSubstr("an empty text tells nobody why"));
    EXPECT_THAT(outcome(made + "(' \\n ')"), HasSubstr("an empty text tells nobody why"));
  }
}

TEST(Verdict, a_reason_can_forge_nothing_and_is_short) {
  EXPECT_EQ(outcome("return fence.skip('a\\nb\\27[31mc')"), "skip: a\\nb\\x1b[31mc");
  const auto result =
      evaluate_body("local s = 'ab' for i = 1, 12 do s = s .. s end return fence.skip(s)").verdict;
  ASSERT_TRUE(result);
  EXPECT_LE(result->reason.size(), 512U);
  EXPECT_GT(result->reason.size(), 500U);
}

TEST(Verdict, a_wait_is_from_a_second_to_an_hour) {
  const auto wait = [](const std::string& arguments) {
    return evaluate_body("return fence.wait(" + arguments + ")").verdict.value().wait;
  };
  EXPECT_EQ(wait("'x'"), std::chrono::seconds(10));
  EXPECT_EQ(wait("'x', 60"), std::chrono::minutes(1));
  EXPECT_EQ(wait("'x', duration('5m')"), std::chrono::minutes(5));
  EXPECT_EQ(wait("'x', -1"), std::chrono::seconds(1));
  EXPECT_EQ(wait("'x', 0"), std::chrono::seconds(1));
  EXPECT_EQ(wait("'x', 1e300"), std::chrono::hours(1));
  EXPECT_EQ(wait("'x', math.huge"), std::chrono::hours(1));
  EXPECT_THAT(outcome("return fence.wait('x', 0/0)"), HasSubstr("0/0"));
  EXPECT_THAT(outcome("return fence.wait('x', '5')"), HasSubstr("must be a number, not a text"));
}

TEST(Verdict, it_is_opaque) {
  EXPECT_THAT(outcome("return fence.skip('x').kind"), HasSubstr("a verdict has no fields"));
  EXPECT_THAT(outcome("local v = fence.skip('x') v.kind = 'delete' return v"),
              HasSubstr("cannot change a verdict"));
  EXPECT_EQ(value_of("fence.skip('x')"), "verdict");
  EXPECT_EQ(value_of("type(fence.skip('x'))"), "userdata");
}

TEST(Verdict, an_unknown_one_is_named_with_the_nearest) {
  EXPECT_EQ(outcome("return fence['delte_pod']('x')"),
            "test.lua:2: unknown function 'delte_pod' of 'fence' (did you mean 'delete_pod'?)");
}

// ---- volumes ---------------------------------------------------------------------------------

constexpr const char* kVolumes = "needs = { 'volumes' },";

policy::Verdict made(const std::string& body) {
  auto verdict = evaluate_body(body, kVolumes).verdict;
  EXPECT_TRUE(verdict) << verdict.error().text;
  return verdict ? *verdict : policy::Verdict{};
}

std::string refused(const std::string& body) {
  const auto verdict = evaluate_body(body, kVolumes).verdict;
  return verdict ? "" : verdict.error().text;
}

std::vector<std::string> claims_of(const policy::Verdict& verdict) {
  std::vector<std::string> claims;
  for (const auto& volume : verdict.volumes) {
    claims.push_back(volume.claim);
  }
  return claims;
}

TEST(ProofOption, every_verdict_that_deletes_may_demand_proof) {
  using policy::Evidence;
  for (const char* call :
       {"delete_pod('x', { proof = { 'attested', 'silent' } })",
        "delete_pod_and_attachments('x', { proof = { 'attested', 'silent' } })",
        "delete_pod_and_attachments('x', pod.volumes, { proof = { 'silent', 'attested' } })",
        "delete_attachments('x', pod.volumes, { proof = { 'attested', 'silent' } })"}) {
    const auto verdict = made(std::string("return fence.") + call);
    EXPECT_TRUE(verdict.proof.contains(Evidence::Attested)) << call;
    EXPECT_TRUE(verdict.proof.contains(Evidence::Silent)) << call;
    EXPECT_FALSE(verdict.proof.contains(Evidence::Unreachable)) << call;
  }
  EXPECT_TRUE(made("return fence.delete_pod('x')").proof.empty());
  EXPECT_TRUE(made("return fence.delete_pod('x', {})").proof.empty());
  EXPECT_TRUE(made("return fence.delete_pod('x', { proof = nil })").proof.empty());
}

TEST(ProofOption, what_could_never_be_met_or_is_not_known_is_refused) {
  const auto with = [](const std::string& proof) {
    return refused("return fence.delete_pod('x', { proof = " + proof + " })");
  };
  EXPECT_THAT(with("{}"), HasSubstr("is an empty list"));
  EXPECT_THAT(
      with("{ 'dead' }"),
      HasSubstr("names 'dead', which is not one of: silent, unreachable, isolated, off, attested"));
  EXPECT_THAT(with("{ 7 }"), HasSubstr("which is not one of"));
  EXPECT_THAT(with("{ attested = true }"), HasSubstr("which is not one of"));
  EXPECT_THAT(with("{ x = 'attested' }"), HasSubstr("which is not one of"));
  EXPECT_THAT(with("'attested'"), HasSubstr("must be a list of evidence"));
  EXPECT_THAT(with("true"), HasSubstr("must be a list of evidence"));
  EXPECT_THAT(refused("return fence.delete_pod('x', { prof = { 'attested' } })"),
              HasSubstr("did you mean 'proof'?"));
  EXPECT_THAT(refused("return fence.delete_pod('x', 7)"), HasSubstr("a table of options"));
  EXPECT_THAT(refused("return fence.delete_pod('x', {}, 7)"), HasSubstr("takes 2 arguments"));
}

// Who may hold a pod for want of proof is asked beside others before its own time.
TEST(ProofOption, a_policy_that_names_it_is_a_guard) {
  EXPECT_TRUE(load_text(policy_text("return fence.delete_pod('x', { proof = { 'attested' } })"))
                  ->is_guard());
  EXPECT_FALSE(load_text(policy_text("return fence.delete_pod('x')"))->is_guard());
}

TEST(AttachmentVerdict, without_a_list_every_resolved_csi_volume_is_meant) {
  const auto verdict = made("return fence.delete_pod_and_attachments('x')");
  EXPECT_EQ(verdict.kind, policy::Verdict::Kind::DeletePodAndAttachments);
  EXPECT_THAT(claims_of(verdict), ElementsAre("data-web-0"));
  EXPECT_EQ(verdict.volumes.front().attachment, "csi-1");
  EXPECT_EQ(verdict.volumes.front().handle, "vol-1");
  EXPECT_FALSE(verdict.release);
}

TEST(AttachmentVerdict, a_list_of_volumes_is_kept_in_order_each_once) {
  EXPECT_THAT(claims_of(made("local v = pod.volumes "
                             "return fence.delete_pod_and_attachments('x', { v[2], v[1], v[2] })")),
              ElementsAre("data-web-0", "share"));
  EXPECT_THAT(claims_of(made("return fence.delete_pod_and_attachments('x', pod.volumes)")),
              ElementsAre("data-web-0", "share"));
  EXPECT_THAT(claims_of(made("return fence.delete_pod_and_attachments('x', { pod.claims[3] })")),
              ElementsAre("share"));
}

TEST(AttachmentVerdict, it_may_ask_for_a_release) {
  EXPECT_TRUE(made("return fence.delete_pod_and_attachments('x', { release = true })").release);
  EXPECT_TRUE(
      made("return fence.delete_pod_and_attachments('x', nil, { release = true })").release);
  EXPECT_TRUE(made("return fence.delete_pod_and_attachments('x', pod.volumes, { release = true })")
                  .release);
  EXPECT_FALSE(made("return fence.delete_pod_and_attachments('x', { release = false })").release);
  EXPECT_THAT(refused("return fence.delete_pod_and_attachments('x', { relase = true })"),
              HasSubstr("unknown key 'relase' (did you mean 'release'?)"));
  EXPECT_THAT(refused("return fence.delete_pod_and_attachments('x', { release = 1 })"),
              HasSubstr("release must be true or false, not an integer"));
  EXPECT_THAT(refused("return fence.delete_pod_and_attachments('x', { release = true }, {})"),
              HasSubstr("argument 2 must be a list of volumes"));
  EXPECT_THAT(refused("return fence.delete_pod_and_attachments('x', nil, 7)"),
              HasSubstr("argument 3 must be a table of options, not an integer"));
  EXPECT_THAT(refused("return fence.delete_pod_and_attachments('x', nil, nil, nil)"),
              HasSubstr("takes 3 arguments, not 4"));
}

TEST(AttachmentVerdict, attachments_first_waits_and_says_what_then) {
  const auto usual = made("return fence.delete_attachments('x', pod.volumes)");
  EXPECT_EQ(usual.kind, policy::Verdict::Kind::DeleteAttachments);
  EXPECT_EQ(usual.wait, std::chrono::minutes(1));
  EXPECT_EQ(usual.on_timeout, policy::Verdict::OnTimeout::Hold);
  EXPECT_THAT(claims_of(usual), ElementsAre("data-web-0", "share"));

  const auto given = made(
      "return fence.delete_attachments('x', { pod.volumes[1] }, "
      "{ order = 'attachments-first', wait = '90s', on_timeout = 'delete' })");
  EXPECT_EQ(given.wait, std::chrono::seconds(90));
  EXPECT_EQ(given.on_timeout, policy::Verdict::OnTimeout::Delete);

  const auto waiting = [](const std::string& wait) {
    return made("return fence.delete_attachments('x', pod.volumes, { wait = " + wait + " })").wait;
  };
  EXPECT_EQ(waiting("'1ms'"), std::chrono::seconds(1));
  EXPECT_EQ(waiting("1e300"), std::chrono::hours(1));
  EXPECT_EQ(waiting("math.huge"), std::chrono::hours(1));
}

TEST(AttachmentVerdict, options_that_do_not_exist_are_refused) {
  const auto options = [](const std::string& table) {
    return refused("return fence.delete_attachments('x', pod.volumes, " + table + ")");
  };
  EXPECT_THAT(options("{ order = 'pod-first' }"),
              HasSubstr("order is 'pod-first', which is not one of: attachments-first"));
  EXPECT_THAT(options("{ on_timeout = 'kill' }"),
              HasSubstr("on_timeout is 'kill', which is not one of: hold, delete"));
  EXPECT_THAT(options("{ wait = 'soon' }"), HasSubstr("which is no duration"));
  EXPECT_THAT(options("{ wait = -1 }"), HasSubstr("wait must be a number of seconds from 0 on"));
  EXPECT_THAT(options("{ wait = 0/0 }"), HasSubstr("wait must be a number of seconds from 0 on"));
  EXPECT_THAT(options("{ wait = true }"), HasSubstr("wait must be a duration"));
  EXPECT_THAT(options("{ release = true }"), HasSubstr("unknown key 'release'"));
  EXPECT_THAT(options("{ 1 }"), HasSubstr("has an integer as a key"));
}

TEST(AttachmentVerdict, only_volumes_of_this_pod_can_be_named) {
  const auto list = [](const std::string& table) {
    return refused("return fence.delete_attachments('x', " + table + ")");
  };
  const std::string rule = "must be a volume of this pod, one of pod.volumes or pod.claims, not ";
  EXPECT_THAT(list("{ { name = 'data' } }"), EndsWith("argument 2[1] " + rule + "a table"));
  EXPECT_THAT(list("{ pod.volumes[1], 'data' }"), EndsWith("argument 2[2] " + rule + "a text"));
  EXPECT_THAT(list("{ pod }"), EndsWith(rule + "pod"));
  EXPECT_THAT(list("{ pod.volumes }"), EndsWith(rule + "pod.volumes"));
  EXPECT_THAT(list("{ pod.volumes[7] }"), HasSubstr("is an empty list"));
  EXPECT_THAT(list("pod.owners"), EndsWith(rule + "owner"));
  EXPECT_THAT(list("{ fence.skip('x') }"), EndsWith(rule + "verdict"));
  EXPECT_THAT(list("{ pod.claims[2] }"),
              HasSubstr("argument 2[1] is the claim 'lost-web-0', which is unbound: it has no "
                        "attachment; take from pod.volumes"));
  EXPECT_THAT(list("pod.claims"), HasSubstr("argument 2[2] is the claim 'lost-web-0'"));
  EXPECT_THAT(list("{}"), HasSubstr("argument 2 is an empty list"));
  EXPECT_THAT(list("nil"), EndsWith("argument 2 must be a list of volumes, not nil"));
  EXPECT_THAT(list("pod"), EndsWith("argument 2 must be a list of volumes, not pod"));
  EXPECT_THAT(list("{ pod.volumes[1], x = 1 }"), HasSubstr("must be a plain list"));
}

TEST(AttachmentVerdict, it_needs_the_volumes_to_be_declared) {
  EXPECT_EQ(outcome("return fence.delete_pod_and_attachments('x')"),
            "test.lua:2: fence.delete_pod_and_attachments: declare needs = { 'volumes' }");
}

TEST(PodHold, it_is_a_verdict_about_a_pod_too) {
  const auto held = [](const std::string& call) {
    return evaluate_body("return fence.hold(" + call + ")").verdict.value();
  };
  EXPECT_EQ(held("'a'").kind, policy::Verdict::Kind::Hold);
  EXPECT_EQ(held("'a'").wait, std::chrono::seconds(30));
  EXPECT_EQ(held("'a', 7").wait, std::chrono::seconds(7));
  EXPECT_THAT(outcome("return fence.hold('')"), HasSubstr("an empty text tells nobody why"));
}

TEST(NodeVerdictOfPod, a_verdict_about_a_node_is_none_about_a_pod) {
  for (const char* call : {"proceed('x')", "taint_out_of_service('x')"}) {
    EXPECT_THAT(outcome(std::string("return fence.") + call),
                HasSubstr("a verdict is about one node; make it inside of node()"));
  }
}

}  // namespace
}  // namespace moonfence
