#pragma once

#include <string_view>

namespace basalt::test {

// Of the scenarios of the controllers: what is left out where time costs time, and
// why.
inline constexpr std::string_view kLeftOutInRealTime[] = {
    // Minutes of waiting are what they are about; on the simulated cluster these cost nothing.
    "JobWaiting.UsersC_3834_EveryNewReasonAppearsAtOnce", "JobUsers.UsersC_1094_*", "JobUsers.UsersD_559_*",
    "JobUsers.UsersC_2033_*", "JobTiming.*", "JobPluginsInUse.UsersH_1894_*", "QueueScenario.Q9AChildCannotOpen*",
    "TtlScenario.T2*", "TtlScenario.T4*", "TtlScenario.AFinishInTheFuture*", "JobFlowLater.AJobOfSomebodyElse*",
    "ShardingWatch.Row69_*", "ShardingWatch.Row74_*", "DataDependency.AFlappingLocality*",
    "DataDependency.TheAgeOfWhatWaits*",
    // Milliseconds decide: what is written before a process ends.
    "JobCompletedIndexes.UsersA_1226_*", "JobCompletedIndexes.OnlyWitness*", "JobCompletedIndexes.RecordsGather",
    // How often is written depends on how fast the machine is; `controllers_kube_bench` measures it.
    "JobLifecycle.TenPodsTakeAtMostEightWrites", "JobFlowLater.NothingIsWritten*",
    // Watches are delayed on the simulated cluster only.
    "JobTakeOver.RestartIsFinishedWithLateWatches",
    // They need a hook inside the embedded API server.
    "JobWaiting.QuotaIsTold", "PodGroupScenario.Users5027_*",
    // Pure; nothing to see of a server.
    "*Plan.*", "QueueWrites.*", "PodGroupCounts.*", "QueueController.*"};

}  // namespace basalt::test
