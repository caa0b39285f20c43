#include "kube/text/object_parser.h"

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "kube/objects/decode.h"
#include "kube/text/json.h"
#include "support/memory_in_use.h"

namespace moonfence::kube {
namespace {

using nlohmann::json;

const json kNode = json::parse(R"({
  "kind": "Node", "apiVersion": "v1",
  "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "7",
    "labels": {"topology.kubernetes.io/zone": "a"},
    "annotations": {"moonfence.io/fenced": "{}", "moonfence.io/out-of-service": "x"},
    "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"f:images": {}}}}]},
  "spec": {"unschedulable": true, "taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]},
  "status": {
    "nodeInfo": {"bootID": "b1"}, "capacity": {"cpu": "4"}, "addresses": [{"type": "InternalIP"}],
    "volumesInUse": ["kubernetes.io/csi/d^h"], "volumesAttached": [{"name": "kubernetes.io/csi/d^h"}],
    "images": [{"names": ["registry/a:1"], "sizeBytes": 123456789012}],
    "conditions": [
      {"type": "MemoryPressure", "status": "False", "reason": "r", "message": "m"},
      {"type": "Ready", "status": "Unknown", "reason": "r", "message": "m",
       "lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:05Z"}]}})");

// Texts in which two parsers may differ: numbers, escapes, keys that come twice, ends that are
// missing.
const std::string_view kTexts[] = {
    "",
    " ",
    "{",
    "}",
    "nul",
    "null",
    "true",
    "[1,]",
    "[1 2]",
    "{\"a\":1}x",
    "{\"a\":1} \n",
    "{\"a\"}",
    "{,}",
    R"({"a":1,"a":2,"b":{"c":1},"b":{"d":2}})",
    R"({"a":[{"b":1},{"b":2}]})",
    "[0,-0,-1,1.5,-1.5e3,1e2,9223372036854775807,9223372036854775808,18446744073709551615]",
    "[18446744073709551616]",
    "[-9223372036854775809]",
    "[1e999]",
    "[1e-999]",
    "[01]",
    "[+1]",
    "[.5]",
    "[5.]",
    "[1e]",
    R"(["\u0041\n\t\"\\\/", "é", "\u00e9", "\ud83d\ude00"])",
    R"(["\ud800"])",
    R"(["\udc00"])",
    R"(["\ud800\ud800"])",
    R"(["\ud800x"])",
    R"(["\u00"])",
    R"(["\x"])",
    "[\"\x01\"]",
    "[\"\xff\"]",
    "[\"\xed\xa0\x80\"]",
    "[\"\xc0\x80\"]",
    "[\"\xf4\x90\x80\x80\"]",
    "\xef\xbb\xbf{}",
    "[\"a\0b\"]",
    "['a']",
    "[NaN]",
    "[Infinity]",
    "/* c */ {}",
    "{} // c",
};

void expect_the_same(ObjectParser& parser, std::string_view text) {
  const auto ours = parser.parse(text);
  const auto theirs = parse_json(text);
  ASSERT_EQ(ours.has_value(), theirs.has_value()) << text;
  if (ours) {
    EXPECT_EQ(*ours, *theirs) << text;
  } else {
    EXPECT_EQ(ours.error().message(), theirs.error().message());
  }
}

TEST(ObjectParser, it_understands_what_parse_json_understands) {
  ObjectParser parser;
  for (const std::string_view text : kTexts) {
    expect_the_same(parser, text);
  }
  expect_the_same(parser, kNode.dump(2));
}

TEST(ObjectParser, whatever_becomes_of_a_text_on_its_way) {
  ObjectParser parser;
  const std::string text = kNode.dump();
  std::mt19937 chance(20261123);
  const auto below = [&chance](std::size_t limit) { return chance() % limit; };
  constexpr std::string_view kBytes = "{}[]\",:\\0123456789.eE+-tfnu \n\xff\xed";
  for (int i = 0; i < 500; ++i) {
    std::string broken = text;
    for (std::size_t edits = below(4) + 1; edits > 0; --edits) {
      const std::size_t at = below(broken.size());
      switch (below(4)) {
        case 0:
          broken[at] = kBytes[below(kBytes.size())];
          break;
        case 1:
          broken.erase(at, below(9) + 1);
          break;
        case 2:
          broken.insert(at, 1, kBytes[below(kBytes.size())]);
          break;
        default:
          broken.resize(at + 1);
      }
    }
    expect_the_same(parser, broken);
  }
}

TEST(ObjectParser, nesting_is_bounded_as_everywhere) {
  ObjectParser parser;
  for (const std::size_t levels : {1U, 63U, 64U, 65U, 100'000U}) {
    expect_the_same(parser, std::string(levels, '[') + std::string(levels, ']'));
  }
}

TEST(ObjectParser, a_long_text_between_short_ones_is_understood) {
  ObjectParser parser;
  expect_the_same(parser, kNode.dump());
  const json large = {{"data", {{"a", std::string(3'000'000, 'x')}}},
                      {"list", json(std::vector<int>(100'000, 7))}};
  expect_the_same(parser, large.dump());
  expect_the_same(parser, kNode.dump());
}

TEST(ObjectParser, what_is_omitted_is_left_out_at_its_place_only) {
  ObjectParser parser(Omitted{{"a"}, {"b", "c"}, {"b", "d", "e"}});
  const auto parsed =
      parser.parse(R"({"a":{"x":1},"c":2,"e":3,"b":{"a":4,"c":5,"d":[{"e":6,"f":7},8]}})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(*parsed, json::parse(R"({"c":2,"e":3,"b":{"a":4,"d":[{"f":7},8]}})"));
  EXPECT_EQ(*parser.parse(R"({"b":"no object"})"), json::parse(R"({"b":"no object"})"));
}

struct GlanceTest : testing::Test {
  ObjectParser parser{within_frames(omitted_of_nodes())};

  [[nodiscard]] static std::string frame(const json& object, const std::string& type = "MODIFIED") {
    return json{{"type", type}, {"object", object}}.dump();
  }
  [[nodiscard]] std::array<unsigned char, 32> content(const json& object) {
    const std::string text = frame(object);
    const auto glance = parser.glance(text);
    EXPECT_TRUE(glance) << object;
    return glance ? glance->content : std::array<unsigned char, 32>{};
  }
};

TEST_F(GlanceTest, it_tells_what_a_frame_is_about) {
  const auto glance = parser.glance(frame(kNode, "ADDED"));
  ASSERT_TRUE(glance);
  EXPECT_EQ(glance->type, "ADDED");
  EXPECT_EQ(glance->name, "n1");
  EXPECT_EQ(glance->version, "7");
}

TEST_F(GlanceTest, a_heartbeat_says_the_same) {
  json beat = kNode;
  beat["metadata"]["resourceVersion"] = "8";
  beat["metadata"]["managedFields"][0]["time"] = "2026-01-01T00:00:10Z";
  for (json& condition : beat["status"]["conditions"]) {
    condition["lastHeartbeatTime"] = "2026-01-01T00:00:10Z";
  }
  beat["status"]["images"].push_back({{"names", {"registry/b:1"}}});
  EXPECT_EQ(content(beat), content(kNode));
}

TEST_F(GlanceTest, whatever_the_tree_holds_makes_a_difference) {
  const auto before = content(kNode);
  const json leaves = parser.parse(frame(kNode))->at("object").flatten();
  std::size_t changed = 0;
  for (const auto& [path, value] : leaves.items()) {
    if (path == "/metadata/resourceVersion" || path == "/metadata/name") {
      continue;
    }
    json other = kNode;
    other[json::json_pointer(path)] =
        value.is_string() ? json(value.get<std::string>() + "x") : json(1);
    EXPECT_NE(content(other), before) << path;
    other[json::json_pointer(path)] = nullptr;
    EXPECT_NE(content(other), before) << path;
    ++changed;
  }
  EXPECT_GT(changed, 15U);
  json more = kNode;
  more["metadata"]["labels"]["a"] = "";
  EXPECT_NE(content(more), before);
  more = kNode;
  more["spec"]["taints"].clear();
  EXPECT_NE(content(more), before);
}

TEST_F(GlanceTest, what_is_told_apart_by_brackets_alone_is_told_apart) {
  const auto of = [this](const char* spec) {
    json object = kNode;
    object["spec"] = json::parse(spec);
    return content(object);
  };
  const std::vector<const char*> specs = {"{}",
                                          "[]",
                                          "null",
                                          "\"\"",
                                          R"({"a":"b"})",
                                          R"({"a":["b"]})",
                                          R"(["a"])",
                                          R"([["a"]])",
                                          R"([["a"],[]])",
                                          R"([[["a"]]])",
                                          R"(["a","b"])",
                                          R"(["ab"])",
                                          R"(["ab",""])",
                                          R"([1])",
                                          R"(["1"])",
                                          R"([true])",
                                          R"(["t"])",
                                          R"([-1])",
                                          R"([1.5])",
                                          R"({"a":{},"b":1})",
                                          R"({"a":{"b":1}})"};
  for (std::size_t one = 0; one < specs.size(); ++one) {
    for (std::size_t other = 0; other < one; ++other) {
      EXPECT_NE(of(specs[one]), of(specs[other])) << specs[one] << " and " << specs[other];
    }
  }
}

TEST_F(GlanceTest, what_is_no_object_with_a_version_has_none) {
  for (const char* text :
       {"", "[]", "{}", "{\"type\":\"MODIFIED\"}", R"({"type":"MODIFIED","object":5})",
        R"({"type":"MODIFIED","object":{"metadata":{"name":"n1"}}})",
        R"({"type":1,"object":{"metadata":{"name":"n1","resourceVersion":"1"}}})",
        R"({"type":"MODIFIED","object":{"metadata":{"name":"n1","resourceVersion":1}}})",
        R"({"type":"MODIFIED","object":{"metadata":{"name":"n1","resourceVersion":"1"}})"}) {
    EXPECT_FALSE(parser.glance(text)) << text;
  }
}

TEST_F(GlanceTest, a_bookmark_names_nothing) {
  const auto glance = parser.glance(
      R"({"type":"BOOKMARK","object":{"kind":"Node","metadata":{"resourceVersion":"9"}}})");
  ASSERT_TRUE(glance);
  EXPECT_EQ(glance->type, "BOOKMARK");
  EXPECT_EQ(glance->name, "");
  EXPECT_EQ(glance->version, "9");
}

// Two texts of one content are one object to decode_node(), also where a key comes twice.
TEST_F(GlanceTest, the_same_content_is_the_same_tree_however_it_is_broken) {
  const std::string text = frame(kNode);
  std::mt19937 chance(20261123);
  const auto below = [&chance](std::size_t limit) { return chance() % limit; };
  std::map<std::array<unsigned char, 32>, json> trees;
  constexpr std::string_view kBytes = "{}[]\",:0123456789-tfn kv";
  std::size_t same = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string edited = text;
    for (std::size_t edits = below(3) + 1; edits > 0; --edits) {
      edited[below(edited.size())] = kBytes[below(kBytes.size())];
    }
    const auto glance = parser.glance(edited);
    if (!glance) {
      continue;
    }
    const auto content = glance->content;
    json tree = (*parser.parse(edited))["object"];
    tree["metadata"].erase("resourceVersion");
    const auto [known, is_new] = trees.emplace(content, tree);
    same += is_new ? 0U : 1U;
    EXPECT_EQ(known->second, tree) << edited;
  }
  EXPECT_GT(same, 10U);
}

// After a thousand pods with volumes 7 MB stayed in the buffers of two watches, which would not see
// a text as long again.
TEST(ObjectParser, a_long_text_leaves_no_large_buffers) {
  const std::string longest = json{
      {"object", {{"metadata", {{"resourceVersion", "1"}}}, {"text", std::string(200'000, 'x')}}},
      {"type", "MODIFIED"}}.dump();
  const std::string usual = R"({"type":"MODIFIED","object":{"metadata":{"resourceVersion":"2"}}})";
  ObjectParser parser;
  ASSERT_TRUE(parser.glance(usual));
  const std::size_t before = tests::memory_in_use();
  ASSERT_TRUE(parser.parse(longest));
  EXPECT_LT(tests::memory_in_use(), before + 100'000);
  ASSERT_TRUE(parser.glance(longest));  // its words stand until the next text
  ASSERT_TRUE(parser.glance(usual));
  EXPECT_LT(tests::memory_in_use(), before + 100'000);
}

// What the watch of the nodes leaves out must not be missed: a field that decode_node() begins to
// read and that is omitted would be empty in every node.
TEST(ObjectParser, a_node_without_what_is_omitted_is_the_same_node) {
  const auto whole = decode_node(kNode);
  ObjectParser parser(omitted_of_nodes());
  const auto parsed = parser.parse(kNode.dump());
  ASSERT_TRUE(parsed);
  EXPECT_LT(parsed->dump().size(), kNode.dump().size() * 3 / 4);
  const auto left = decode_node(*parsed);
  ASSERT_TRUE(whole && left);
  EXPECT_EQ(left->name, whole->name);
  EXPECT_EQ(left->uid, whole->uid);
  EXPECT_EQ(left->resource_version, whole->resource_version);
  EXPECT_EQ(left->boot_id, "b1");
  EXPECT_EQ(left->zone, "a");
  EXPECT_EQ(left->fence_mark, "{}");
  EXPECT_EQ(left->out_of_service_mark, "x");
  EXPECT_EQ(left->taints, whole->taints);
  EXPECT_EQ(left->taints.size(), 1U);
  EXPECT_TRUE(left->unschedulable);
  ASSERT_TRUE(left->ready);
  EXPECT_EQ(left->ready->status, "Unknown");
  EXPECT_EQ(left->ready->last_transition_time, whole->ready->last_transition_time);
}

}  // namespace
}  // namespace moonfence::kube
