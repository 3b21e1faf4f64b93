/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of uPlot where it could not be fetched. */
export default null;
