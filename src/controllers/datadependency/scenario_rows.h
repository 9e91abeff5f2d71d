#pragma once

#include <string_view>
#include <vector>

// For tests only: which test plays which row of the table of scenarios, and why a row does not play on a real API
// server.

namespace basalt::controllers::datadependency {

struct ScenarioRow {
  int number;
  std::string_view what;
  // "Suite.Name" of this folder's tests; "integration:NAME" is in test/integration/data_test.py, "kube:Suite.Name" in
  // test/kube.
  std::vector<std::string_view> tests;
  std::string_view not_on_a_real_server = {};  // the reason, if none of the tests plays there
};

inline const std::vector<ScenarioRow>& scenario_rows() {
  constexpr std::string_view kPure = "a pure function: nothing to see of a server";
  constexpr std::string_view kHttp = "integration:test_a_metadata_service_that_fails_in_every_way";
  constexpr std::string_view kHttpReal = "kube:DataHttpReal.AMetadataServiceThatFailsInEveryWay";
  static const std::vector<ScenarioRow> rows = {
      {1, "claim created", {"DataDependency.AClaimGetsAFinalizerAPhaseAndOneQuestion"}},
      {2, "second claim of a table", {"DataDependency.AClaimIsResolvedOnceAndSharedByAllThatNameTheTable"}},
      {3,
       "1000 claims at once",
       {"DataDependency.AThousandClaimsOfFiftyNamespacesAskOnce", "Resolver.TenThousandWhoWantToKnowAreOneQuestion",
        "DataDependencyAdmission.AHundredWorkloadsAtOnceAreNeverOpenToAWrongCluster"}},
      {5, "empty and absent attributes", {"DataDependency.RefreshesThatBringNothingWriteNothing"}},
      {6, "underscore and upper case", {"DataDependency.ANameThatNoObjectMayHaveIsBoundAllTheSame"}},
      {7, "two or four parts", {"TableName.HasThreeParts", kHttpReal}},
      {8, "characters of paths", {kHttp, kHttpReal}},
      {9, "data source made by hand", {"DataDependency.ASourceMadeByHandNeedsNoPlugin"}},
      {11, "404 of Iceberg", {"DataDependency.TheWorkloadIsSteeredAndReleased", kHttp, kHttpReal}},
      {12, "404 of a proxy", {"IcebergAnswers.TellTheirKindsApart", kHttp, kHttpReal}},
      {13, "503 twice", {kHttp, kHttpReal}},
      {14, "503 for long", {"DataDependency.AnOutageOfTheSystemEndsNothingAndIsSaid"}},
      {15, "429 with Retry-After", {kHttp, kHttpReal}},
      {17, "answers that are none", {"IcebergAnswers.TellTheirKindsApart", kHttp, kHttpReal}},
      {18, "50 MB of metadata", {kHttp, kHttpReal}},
      {19, "credentials refused", {"DashboardAnswers.HideTheirCodeInTheBody", kHttp, kHttpReal}},
      {20, "external catalog", {kHttp, kHttpReal}},
      {21, "signatures", {"AmoroSignature.HasTheCheckValues"}, kPure},
      {23, "alias of a scheme", {"LocationMapping.TheLongestPrefixDecides"}, kPure},
      {24, "longest prefix without clusters", {"LocationMapping.TheLongestPrefixDecides"}, kPure},
      {25, "configuration changed", {"DataDependency.AChangedConfigurationIsFollowedAtOnce", kHttp}},
      {26, "configuration removed", {"DataDependency.APluginThatIsRemovedLeavesConstraintsAlone"}},
      {27, "files swapped", {"DataDependency.MountedFilesAreReadAgainWhenTheyAreSwapped"}},
      {29, "credentials rotated", {"DataDependency.CredentialsFromASecretAreUsedRotatedAndNeverTold", kHttp}},
      {30, "binding appears", {"DataDependency.AClaimAfterTheWorkloadMovesItAndTellsSo"}},
      {31, "policy excludes too", {"DataDependency.AClaimAfterTheWorkloadMovesItAndTellsSo"}},
      {32, "policy forbids the cluster", {"DataDependency.APolicyThatForbidsTheDatasClusterIsTold"}},
      {33, "several affinity terms", {"DataDependency.EveryTermOfAPolicyIsConstrainedAndFreedAgain"}},
      {35, "contradiction, new", {"DataDependency.TwoClaimsAreIntersectedAndContradictionsHold"}},
      {36, "contradiction, running", {"DataDependency.TheGateWaitsForEveryClaimAndContradictionsEvictNobody"}},
      {37, "second claim pending", {"DataDependency.TheGateWaitsForEveryClaimAndContradictionsEvictNobody"}},
      {38, "one of two claims deleted", {"DataDependency.TwoClaimsAreIntersectedAndContradictionsHold"}},
      {39, "restart with 100 claims", {"DataDependency.ARestartWithAHundredBoundClaimsWritesNothing"}},
      {41, "template edited", {"DataDependencyAdmission.AnOverwriteIsNeverVisible"}},
      {42, "Karmada restarted", {"DataDependencyAdmission.AllBindingsOverwrittenAtOnceKeepTheirConstraint"}},
      {43, "policy edited", {"DataDependencyAdmission.AnOverwriteIsNeverVisible"}},
      {44, "workload changed", {"DataDependency.AChangedReferenceCleansTheOldWorkload"}},
      {45, "data changed", {"DataDependency.AChangedTableIsSwappedWithoutAGap"}},
      {47, "locality wider", {"DataDependency.AWiderLocalityMovesNobodyAndAForbiddenClusterMovesOnce"}},
      {48, "cluster forbidden", {"DataDependency.AWiderLocalityMovesNobodyAndAForbiddenClusterMovesOnce"}},
      {49,
       "locality flaps",
       {"DataDependency.AFlappingLocalityMovesAWorkloadRarely"},
       "twenty minutes of virtual time are what it is about"},
      {50, "data source deleted", {"DataDependency.ADeletedSourceIsLetGoAndMadeAgain"}},
      {51, "idle one deleted meanwhile", {"DataDependency.AnIdleSourceThatIsDeletedWhileNobodyWatchesGoes"}},
      {53, "reclaim policy", {"DataDependency.TheReclaimPolicyDecidesAfterTheLastClaim"}},
      {54, "table dropped", {"DataDependency.ATableThatVanishesMovesNobody"}},
      {55, "cluster joins", {"DataDependency.ClustersThatComeAreExcludedToo"}},
      {56, "cluster removed", {"DataDependency.ClustersThatComeAreExcludedToo"}},
      {57, "namespace omitted", {"DataDependency.ClaimsThatCannotSteerSaySo"}},
      {59,
       "empty kind",
       {"DataDependency.AWorkloadWithoutAKindIsRefused",
        "DataDependency.AWorkloadWithoutAKindIsToldWhereTheSchemaLetsItPass"}},
      {60,
       "other kinds",
       {"DataDependency.EveryKindOfWorkloadInANamespaceIsHeld", "DataDependency.ClaimsThatCannotSteerSaySo"}},
      {61, "binding before claim", {"DataDependency.AClaimAfterTheWorkloadMovesItAndTellsSo"}},
      {62,
       "suspension of the policy",
       {"DataDependencyAdmission.AnUnresolvedClaimHoldsANewBindingAndTakesItsChoiceBack",
        "DataDependency.AnotherControllersSuspensionStays"}},
      {63, "conflicts", {"DataDependency.ConflictsWithASchedulerThatWritesAllTheTimeEnd"}},
      {65, "status write fails", {"DataDependency.AClaimStaysUntilItsDataSourceHasForgottenIt"}},
      {66, "refresh in another order", {"DataDependency.RefreshesThatBringNothingWriteNothing"}},
      {67, "refresh returns nothing", {"DataDependency.RefreshesThatBringNothingWriteNothing"}},
      {68, "unknown system", {"DataDependency.AnUnknownSystemIsNamedAndServedOnceItIsConfigured"}},
      {69, "leader change", {"DataDependency.ALeaderChangeDuringAResolutionAsksAtMostTwice"}},
      {70, "100 workloads", {"DataDependencyAdmission.AHundredWorkloadsAtOnceAreNeverOpenToAWrongCluster"}},
      {71, "finished job", {"DataDependency.AFinishedJobIsNeverMoved"}},
      {72, "cluster never reachable", {"DataDependency.AClusterThatWasNeverReachableDisturbsNobody"}},
      {73, "copies everywhere", {"DataDependencyAdmission.ACopyInEveryClusterMeansInEveryAllowedOne"}},
  };
  return rows;
}

}  // namespace basalt::controllers::datadependency
