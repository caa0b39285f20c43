#include "kube/kubelet/kubelet_answer.h"

#include <gtest/gtest.h>

namespace moonfence::kube {
namespace {

using Kind = Error::Kind;

constexpr const char* kTwo =
    R"({"kind":"PodList","apiVersion":"v1","metadata":{},"items":[
      {"metadata":{"name":"web-0","namespace":"db","uid":"u1","creationTimestamp":null},
       "spec":{"nodeName":"n1","containers":[{"name":"main"}]},"status":{"phase":"Running"}},
      {"metadata":{"name":"web-1","namespace":"db","uid":"u2"},"spec":{"containers":null},
       "status":{}}]})";

Result<std::vector<KubeletPod>> pods_of(const std::string& text, std::size_t piece = 7) {
  KubeletPodsReader reader;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    if (auto taken = reader.append(std::string_view(text).substr(at, piece)); !taken) {
      return failure(taken.error());
    }
  }
  return reader.finish();
}

Kind fault_of_pods(const std::string& text, std::size_t piece = 4096) {
  const auto pods = pods_of(text, piece);
  EXPECT_FALSE(pods) << text.substr(0, 200);
  return pods ? Kind::Cancelled : pods.error().kind;
}

Result<KubeletProcess> process_of(const std::string& text, std::size_t piece = 4096) {
  KubeletMetricsReader reader;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    if (auto taken = reader.append(std::string_view(text).substr(at, piece)); !taken) {
      return failure(taken.error());
    }
  }
  return reader.finish();
}

std::string metrics(const std::string& started = "process_start_time_seconds 1.76733e+09\n",
                    const std::string& node = "kubelet_node_name{node=\"n1\"} 1\n") {
  return "# HELP kubelet_node_name [ALPHA] The node's name. The count is always 1.\n" + node +
         "# TYPE process_start_time_seconds gauge\n" + started +
         "process_start_time_seconds_of_another 5\n";
}

TEST(KubeletPods, any_cutting_gives_the_same_pods) {
  const std::vector<KubeletPod> expected = {
      {.ref = {.space = Namespace("db"), .name = "web-0"},
       .uid = Uid("u1"),
       .node = NodeName("n1")},
      {.ref = {.space = Namespace("db"), .name = "web-1"}, .uid = Uid("u2"), .node = {}}};
  for (const std::size_t piece : {1U, 2U, 3U, 50U, 5000U}) {
    const auto pods = pods_of(kTwo, piece);
    ASSERT_TRUE(pods) << pods.error().text;
    EXPECT_EQ(*pods, expected);
  }
}

// A kubelet that runs nothing has no list to encode.
TEST(KubeletPods, null_is_an_empty_list) {
  const auto pods = pods_of(R"({"kind":"PodList","apiVersion":"v1","metadata":{},"items":null})");
  ASSERT_TRUE(pods) << pods.error().text;
  EXPECT_TRUE(pods->empty());
}

TEST(KubeletPods, what_is_no_whole_list_of_pods_is_no_answer) {
  const std::string whole = kTwo;
  EXPECT_EQ(fault_of_pods(""), Kind::Retryable);
  for (std::size_t end = 1; end < whole.size(); end += 13) {
    EXPECT_EQ(fault_of_pods(whole.substr(0, end)), Kind::Retryable) << end;
  }
  EXPECT_EQ(fault_of_pods("Forbidden"), Kind::Malformed);
  EXPECT_EQ(fault_of_pods(R"({"kind":"PodList"})"), Kind::Malformed);
  EXPECT_EQ(fault_of_pods(R"({"kind":"NodeList","items":[]})"), Kind::Malformed);
  EXPECT_EQ(fault_of_pods(R"({"kind":"PodList","metadata":{"continue":"c"},"items":[]})"),
            Kind::Malformed);
  for (const char* pod :
       {R"({})", R"({"metadata":{"name":"a","namespace":"b"}})",
        R"({"metadata":{"name":"a","namespace":"b","uid":5}})",
        R"({"metadata":{"name":"a","uid":"u"}})",
        R"({"metadata":{"name":"a","namespace":"b","uid":"u"},"spec":{"nodeName":1}})"}) {
    EXPECT_EQ(fault_of_pods(std::string(R"({"kind":"PodList","items":[)") + pod + "]}"),
              Kind::Malformed)
        << pod;
  }
}

TEST(KubeletPods, what_is_too_large_is_no_answer) {
  const std::string begin = R"({"kind":"PodList","items":[)";
  const std::string pod = R"({"metadata":{"name":"a","namespace":"b","uid":"u","x":")";
  EXPECT_EQ(fault_of_pods(begin + pod + std::string(KubeletPodsReader::kLongestPod, 'x')),
            Kind::Limit);
  std::string many = begin;
  for (std::size_t i = 0; i <= KubeletPodsReader::kMostPods; ++i) {
    many += (i == 0 ? "" : ",") + pod + "\"}}";
  }
  EXPECT_EQ(fault_of_pods(many + "]}"), Kind::Limit);
  std::string long_one = begin;
  for (std::size_t i = 0; i <= 20; ++i) {
    long_one += (i == 0 ? "" : ",") + pod + std::string(900'000, 'x') + "\"}}";
  }
  EXPECT_EQ(fault_of_pods(long_one + "]}"), Kind::Limit);
}

TEST(KubeletMetrics, any_cutting_gives_the_same_process) {
  for (const std::size_t piece : {1U, 2U, 7U, 5000U}) {
    const auto process = process_of(metrics(), piece);
    ASSERT_TRUE(process) << process.error().text;
    EXPECT_EQ(*process, (KubeletProcess{.node = NodeName("n1"),
                                        .started = *parse_rfc3339("2026-01-02T05:00:00Z")}));
  }
  const auto exact = process_of(metrics("process_start_time_seconds 1.76733000125e+09\n"));
  EXPECT_EQ(exact->started, *parse_rfc3339("2026-01-02T05:00:01.25Z"));
}

TEST(KubeletMetrics, a_start_must_be_said_once_and_in_earnest) {
  for (const char* line :
       {"", "process_start_time_seconds\n", "process_start_time_seconds \n",
        "process_start_time_seconds 0\n", "process_start_time_seconds -1.7e+09\n",
        "process_start_time_seconds NaN\n", "process_start_time_seconds +Inf\n",
        "process_start_time_seconds 1.7e+09x\n", "process_start_time_seconds 1.7e+09 1700000000\n",
        "process_start_time_seconds  1.7e+09\n", "process_start_time_seconds 1.7e+12\n",
        "process_start_time_seconds{a=\"b\"} 1.7e+09\n", "process_start_time_seconds 0x65000000\n",
        "process_start_time_seconds 1.7e+09\r\n",
        "process_start_time_seconds 1.7e+09\nprocess_start_time_seconds 1.7e+09\n"}) {
    EXPECT_FALSE(process_of(metrics(line))) << line;
  }
  const std::string endless = "process_start_time_seconds " + std::string(5000, '1') + "\n";
  EXPECT_FALSE(process_of(metrics(endless)));
}

TEST(KubeletMetrics, the_node_must_be_named_once) {
  for (const char* line :
       {"", "kubelet_node_name 1\n", "kubelet_node_name{node=\"\"} 1\n",
        "kubelet_node_name{node=\"n1\"} 0\n", "kubelet_node_name{node=\"n1\"} 1 5\n",
        "kubelet_node_name{node=\"n1\",node=\"n2\"} 1\n", "kubelet_node_name{node=\"n\\1\"} 1\n",
        "kubelet_node_name{node=\"n1\"} 1\nkubelet_node_name{node=\"n2\"} 1\n"}) {
    EXPECT_FALSE(process_of(metrics("process_start_time_seconds 1.7e+09\n", line))) << line;
  }
}

TEST(KubeletMetrics, an_answer_that_was_cut_short_or_never_ends_is_none) {
  const std::string cut =
      "kubelet_node_name{node=\"n1\"} 1\nprocess_start_time_seconds 1.76733e+09";
  EXPECT_EQ(process_of(cut).error().kind, Kind::Retryable);  // more digits may be missing
  EXPECT_TRUE(process_of(cut + "\n"));
  const std::string line = "a_metric_of_no_interest{x=\"" + std::string(1U << 20U, 'y') + "\"} 1\n";
  EXPECT_TRUE(process_of(line + metrics()));
  std::string endless;
  for (std::size_t i = 0; i <= 33; ++i) {
    endless += line;
  }
  EXPECT_EQ(process_of(endless + metrics()).error().kind, Kind::Limit);
}

}  // namespace
}  // namespace moonfence::kube
