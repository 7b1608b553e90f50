/** The build makes modules of notebooks. */
declare module "*.ipynb" {
  const notebook: unknown;
  export default notebook;
}
