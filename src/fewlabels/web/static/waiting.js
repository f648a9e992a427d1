// What is going on behind the page, and how long it will take, in words.

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

/** What a running job does at this moment: "Embedding: 100 of 400, about 20 seconds left". */
export function progressOf(job, title) {
  const what = job.task || title;
  const far = job.total ? `${what}: ${job.done} of ${job.total}` : what;
  return [far, timeLeft(job)].filter((part) => part).join(", ");
}
