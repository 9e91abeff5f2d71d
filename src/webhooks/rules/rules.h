#pragma once

#include "webhooks/review.h"
#include "webhooks/rule_context.h"

// The rules, one function per hook; each in the file of its name.

namespace basalt::webhooks {

void mutate_job(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_job(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void mutate_queue(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_queue(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void mutate_pod_group(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_pod_group(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void mutate_pod(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_pod(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_cron_job(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_job_flow(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_hyper_node(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_hyper_job(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_data_source(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void validate_data_source_claim(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);
void mutate_binding(const RuleContext& context, const ReviewRequest& request, ReviewAnswer& answer);

}  // namespace basalt::webhooks
