// Numbers, durations and the progress of jobs, in words.

export const number = (value) => value.toLocaleString("en");
export const plural = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;
export const percent = (share) => `${Math.round(100 * share)} %`;

function duration(seconds) {
  if (seconds < 5) return "a few seconds";
  if (seconds < 90) return `about ${seconds < 20 ? Math.ceil(seconds) : 10 * Math.ceil(seconds / 10)} seconds`;
  return `about ${Math.ceil(seconds / 60)} minutes`;
}

/** How long a running job will take; empty: nobody knows yet. */
export function timeLeft(job) {
  if (typeof job.seconds_left === "number") return `${duration(job.seconds_left)} left`;
  return job.usual_seconds && !job.total ? `it took ${duration(job.usual_seconds)} the last time` : "";
}

/** Names of what a job does that say too little to whoever labels. */
const TASKS = { Embedding: "Looking at all images" };

/** What a running job does at this moment: "Training: 100 of 400, about 20 seconds left". */
export function progressOf(job, title) {
  const what = TASKS[job.task] || job.task || title;
  const done = job.total ? `${what}: ${job.done} of ${job.total}` : what;
  return [done, timeLeft(job)].filter((part) => part).join(", ");
}

/** Why there are no features yet, in a sentence. */
export function featuresStatus(job) {
  return `${job.status === "running" ? progressOf(job, "This is being prepared") : (job.error ?? "It was stopped")}.`;
}
