/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Job reports (engine/jobs) for people and programs: JSON, in which the journal keeps them too and from which they are
 * read again, text, one line for a workload manager, a page. Pure; decides nothing. One thread.
 */

#include "base/err.h"
#include "base/str.h"
#include "engine/jobs/jobs.h"

typedef VEC(JobReport) JobReports;
void job_reports_done(JobReports *reports); /* accepts a zeroed one */

/* {"version":1,"id":...}; docs/jobs.schema.json describes it. */
void job_json(const JobReport *report, Str *out);
/* {"node":...,"time":...,"jobs":[...]}, ended by a newline. */
void jobs_json(const JobReport *const *reports, size_t count, const char *node, uint64_t real_ns, Str *out);
/* Appends what jobs_json or job_json wrote, known members alone. -EINVAL for anything else. */
int jobs_read(const char *text, size_t len, JobReports *reports, Err *err);

typedef struct JobStyle {
    size_t width;
    bool utf8;
    uint64_t real_ns; /* now */
} JobStyle;

/* A row per report. */
void jobs_text(const JobReport *const *reports, size_t count, const JobStyle *style, Str *out);
/* The whole report. */
void job_text(const JobReport *report, const JobStyle *style, Str *out);
/* One line without a newline, in ASCII without quotes, for a comment of a job. */
void job_line(const JobReport *report, Str *out);
/* jobstats' AdminComment of a job ("JS1:..."), from the reports of its nodes. */
int job_comment(const JobReport *const *reports, size_t count, Str *out, Err *err);
/* A line for each thing that jobstats needs and that the reports do not have. */
void job_comment_gaps(const JobReport *const *reports, size_t count, Str *out);
/* A page of its own, without any other file. */
void job_html(const JobReport *report, uint64_t real_ns, Str *out);
